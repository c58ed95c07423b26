#pragma once

#include <cotangent/ops/engine/map/unary.h>

namespace ct::elementwise::unary::formulas {

using namespace map;

#define CT_UNARY(name, text, types, saved, samples, y, dx) CT_UNARY_FORMULAS(Formula, name, saved, y, dx)
#define CT_UNARY_COLD(name, text, types, saved, samples, y, dx) CT_UNARY_FORMULAS(Cold, name, saved, y, dx)
#include <cotangent/ops/elementwise/unary_table.inc>

}  // namespace ct::elementwise::unary::formulas
