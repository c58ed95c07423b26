#pragma once

#include <cotangent/ops/engine/map/binary.h>

namespace ct::elementwise::binary::formulas {

using namespace map;

#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db) \
  CT_BINARY_FORMULAS(Formula, name, saves_a, saves_b, y, da, db)
#define CT_BINARY_COLD(name, text, types, saves_a, saves_b, samples, y, da, db) \
  CT_BINARY_FORMULAS(Cold, name, saves_a, saves_b, y, da, db)
#define CT_PREDICATE(name, text, types, samples, y) CT_BINARY_FORMULA(Formula, name##_y, y)
#define CT_BITWISE(name, text, types, samples, y) CT_BINARY_FORMULA(Cold, name##_y, y)
#define CT_TERNARY(name, text, types, saves_a, saves_b, saves_c, samples, y, da, db, dc) \
  CT_TERNARY_FORMULAS(Cold, name, saves_a, saves_b, saves_c, y, da, db, dc)
#include <cotangent/ops/elementwise/binary_table.inc>

#define CT_SCALAR(name, text, types, saved, samples, y, dx) CT_UNARY_FORMULAS(Formula, name, saved, y, dx)
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) CT_UNARY_PREDICATE_FORMULA(Formula, name, y)
#include <cotangent/ops/elementwise/scalar_table.inc>

}  // namespace ct::elementwise::binary::formulas
