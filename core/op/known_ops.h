#pragma once

#include <string_view>
#include <vector>

#include <cotangent/core/base/export.h>

// The list of ops. What one says of itself, an OpDef, is in core/op/op_def.h.

namespace ct {

struct OpDef;

/// Every op there is: those of the library, in order of room, then those added by register_op.
CT_API std::vector<const OpDef*> registry();

/// The op of that name; null if there is none.
CT_API const OpDef* find_op(std::string_view name);

/// Adds an op that lives outside the library, so that registry() and find_op see it. Needed neither for dispatching nor
/// for testing it. `op` must outlive the program's use of the registry.
/// Throws ValueError if the name is taken by another op.
CT_API void register_op(const OpDef& op);

/// Takes an op added by register_op out again (before its library is unloaded). Unknown ops are ignored.
CT_API void unregister_op(const OpDef& op);

}  // namespace ct
