#pragma once

#include <cotangent/ops/engine/map/binary.h>

namespace ct::binary::formulas {

using namespace elementwise;

#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db) \
  CT_BINARY_FORMULAS(name, saves_a, saves_b, y, da, db)
#define CT_PREDICATE(name, text, types, samples, y) CT_BINARY_FORMULA(name##_y, y)
#include <cotangent/ops/elementwise/binary_table.inc>

#define CT_SCALAR(name, text, types, saved, samples, y, dx) CT_UNARY_FORMULAS(Formula, name, saved, y, dx)
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) CT_UNARY_PREDICATE_FORMULA(Formula, name, y)
#include <cotangent/ops/elementwise/scalar_table.inc>

}  // namespace ct::binary::formulas
