#pragma once

#include <span>

#include <cotangent/core/op/execute.h>
#include <cotangent/ops/update/rules_internal.h>

// The ops, for nn/optim, which calls them with detail::write() (core/op/execute.h): off the tape, the written inputs in
// place. Their inputs are right by then; nothing is checked here.

namespace ct::update {

#define CT_UPDATE_OP(Rule, op) extern const OpDef k_##op;
CT_UPDATE_RULES(CT_UPDATE_OP)
#undef CT_UPDATE_OP
extern const OpDef k_total_norm, k_clip_to_norm, k_clip_values, k_unscale, k_update_scale, k_average_step;
/// Sources are f32, targets of one dtype of 16 bits; all are contiguous. For captured steps, which round their weights so.
extern const OpDef k_round_all;

#define CT_UPDATE_OP(Rule, op) \
  inline const OpDef& op_of(const Rule&) { return k_##op; }
CT_UPDATE_RULES(CT_UPDATE_OP)
#undef CT_UPDATE_OP

/// Whether `op` is one of them, whose inputs are as rules_internal.h lists them, a parameter's turn as long as its last record says.
inline bool is_step(const OpDef& op) {
#define CT_UPDATE_OP(Rule, name) || &op == &k_##name
  return false CT_UPDATE_RULES(CT_UPDATE_OP);
#undef CT_UPDATE_OP
}

}  // namespace ct::update
