#pragma once

#include <cotangent/core/op/op_def.h>

namespace ct::indexing_impl::flat {

struct Attrs {
  Dims sizes;
};

/// y[i] = (.. i_0[i] n_1 + i_1[i]) n_2 + .., negative indices counted from the end of their axis: all contiguous i64.
struct Lists {
  int count = 0;
  const std::int64_t* data[kMaxRank];
  std::int64_t size[kMaxRank];

  explicit Lists(const Forward& f) : count(static_cast<int>(f.inputs.size())) {
    for (int k = 0; k < count; ++k)
      data[k] = static_cast<const std::int64_t*>(f.in(k).raw_data()), size[k] = f.attrs<Attrs>().sizes[k];
  }
  /// -1 where an index is out of range: bad(index, size) is told.
  template <class Bad>
  CT_HD std::int64_t at(std::int64_t i, Bad&& bad) const {
    std::int64_t flat = 0;
    for (int k = 0; k < count; ++k) {
      const std::int64_t index = data[k][i];
      if (index < -size[k] || index >= size[k]) {
        bad(index, size[k]);
        return -1;
      }
      flat = flat * size[k] + (index < 0 ? index + size[k] : index);
    }
    return flat;
  }
};

}  // namespace ct::indexing_impl::flat
