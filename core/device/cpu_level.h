#pragma once

#include <span>

#include <cotangent/core/base/export.h>

// One program for every processor of an architecture: the kernels of the CPU (files NAME_cpu.cpp) are in the library once for
// each level of its instructions, and those of the highest that the processor has are called. All else is compiled for
// every processor of the architecture. cmake/CotangentLevels.cmake builds it.

namespace ct {

/// The levels that the linked library has kernels for, the least first: "v2", "v3" and "v4" of x86-64 (SSE4.2; AVX2, FMA;
/// AVX-512; https://gitlab.com/x86-psABIs/x86-64-ABI, "Micro-Architecture Levels"), "v4-bf16" and "v4-amx" (v4, bf16's products
/// by AVX512-BF16, AMX). Built for one processor, or another architecture, it has one: "native", "baseline", or what was asked.
CT_API std::span<const char* const> cpu_levels() noexcept;

/// The level whose kernels run: the highest that this processor has and gains by, or the one that the environment variable
/// COTANGENT_CPU names. Decided at the first call of this function or of a kernel, for the life of the process. A level gives
/// the same bits on every processor that has it, but for the system's sin, log and others in f64; levels differ by rounding.
/// Throws ValueError if COTANGENT_CPU names no level of this library, or one that the processor lacks, and DeviceError if
/// the processor lacks all of them. Calls of ops then throw the same.
CT_API const char* cpu_level();

namespace detail {
/// The place of cpu_level() in cpu_levels(). Throws as it does.
int cpu_level_index();
}  // namespace detail

}  // namespace ct
