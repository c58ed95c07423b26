#pragma once

#include <cotangent/ops/elementwise_unary_internal.h>

namespace ct::unary::formulas {

using namespace elementwise;

#define CT_UNARY(name, text, types, saved, samples, y, dx) CT_UNARY_FORMULAS(name, saved, y, dx)
#include <cotangent/ops/unary/unary_table.inc>
#undef CT_UNARY

}  // namespace ct::unary::formulas
