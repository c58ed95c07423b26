#pragma once

#include <cstddef>

// Where the kernels of an op are: the tables that its files bring (CT_KERNELS in core/op_def.h), put together by the
// build, which alone knows the files and the devices. Programs so carry the kernels of the ops that they use.

namespace ct {

struct KernelEntry;

/// The kernels that one file brings.
struct KernelTable {
  const KernelEntry* entries;
  std::size_t size;
};

/// The tables of one name, by KernelKind. Each list ends with null.
struct KernelTables {
  const KernelTable* const* of[3];
};

}  // namespace ct
