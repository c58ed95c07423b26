#pragma once

namespace ct::data::detail {

/// Whether allocate_batch() of this thread gives pinned memory.
bool& pinned_batches();

}  // namespace ct::data::detail
