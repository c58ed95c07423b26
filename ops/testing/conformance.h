#pragma once

#include <string>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/testing/samples.h>

// The conformance suite: everything that must hold for every op, checked from its OpDef and its OpTests. It runs on the
// library's ops and on ops of the user's own; it needs no test framework. Link Cotangent::testing.

namespace ct {

struct ConformanceOptions {
  std::vector<Device> devices = {};  ///< empty: the CPU, and the GPU if there is one
  std::vector<DType> dtypes = {};    ///< empty: all that the op claims
  bool gradients = true;
  std::uint64_t seed = 1;
  int volume = 1;  ///< how many points of special values are drawn for a sample
};

/// Result for one op on one device and dtype.
struct ConformanceRow {
  Device device;
  DType dtype;
  bool forward = false;   ///< forward agrees with the oracle on every sample and layout
  bool backward = false;  ///< backward agrees as well; false for ops that have none
};

struct ConformanceReport {
  const OpDef* op = nullptr;
  std::vector<ConformanceRow> rows;
  std::vector<std::string> failures;  ///< one line each: sample, device, dtype, what differed
  int checks = 0;
  bool ok() const { return failures.empty(); }
};

/// Runs the suite on one op. For every sample, device and dtype:
///   - forward against the tests' reference, or else the op's plain kernels, in f64 from the same (rounded) inputs;
///   - its cost (cost_of), whose bytes are its results' at least and at most those of its inputs and twice its results';
///   - the same with strided and transposed inputs, and twice, and with another number of threads: same bits;
///   - f64 gradients against central differences (see gradcheck);
///   - gradients by the op's rule, if it has one, against the kernel's, also where only some inputs want them;
///   - second derivatives by the rule against central differences of the gradient (see gradgradcheck);
///   - both, and derivatives along a direction, where its values are zeros, ties, numbers of the call, infinities or NaN;
///   - gradients against those of the plain kernels, or of the other dtypes against the f64 ones; with contiguous and
///     strided cotangents;
///   - gradients when only some inputs want them, and accumulated over two passes;
/// And for every device bad calls: the error samples, and calls with inputs or attributes too few or too many, undefined
/// inputs, other dtypes, devices and shapes, in place and backward. Each throws the right Error with the op's name in front,
/// the same text on every device, or works where that may be; its inputs are as before, and the next call works. An op
/// has ten at least.
CT_API ConformanceReport check_conformance(const OpDef& op, const OpTests& tests,
                                           const ConformanceOptions& options = {});
/// The same for an op of the library, with its own tests (find_tests). An op without any does not pass. Link
/// Cotangent::samples.
CT_API ConformanceReport check_conformance(const OpDef& op, const ConformanceOptions& options = {});

}  // namespace ct
