#pragma once

#include <span>
#include <string_view>

#include <cotangent/core/op/op_def.h>

// Records of an op's kernels, for what puts several ops together: entries of a room's table behind the op's name, as
// "softmax rows", whose kernel hands the record out.

namespace ct {

/// The kernel of such an entry.
template <const auto& record>
void hand_out(const Forward& f) {
  *static_cast<const void**>(const_cast<void*>(f.attrs_view.data)) = &record;
}

/// The record of an op's kernels on the CPU, or on a GPU: of the entry whose name is the op's with `kind` behind it; null where
/// there is none.
const void* record_of(const OpDef& op, std::string_view kind, bool on_gpu = false);

}  // namespace ct
