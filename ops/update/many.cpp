#include <cotangent/ops/update/many_internal.h>

#include <cotangent/core/base/per_thread.h>

namespace ct::update::many {
namespace {

template <class T>
std::vector<T>& emptied(std::vector<T>& list) {
  list.clear();
  return list;
}

}  // namespace

std::vector<const Tensor*>& scratch_inputs() { return emptied(per_thread<std::vector<const Tensor*>>()); }
std::vector<Entry>& scratch_entries() { return emptied(per_thread<std::vector<Entry>>()); }
std::vector<std::int64_t>& scratch_starts() {
  return emptied(per_thread<std::vector<std::int64_t>, struct Starts>());
}

void reserve_scratch(std::size_t entries, std::size_t inputs) {
  scratch_entries().reserve(entries);
  scratch_starts().reserve(entries + 1);
  scratch_inputs().reserve(inputs);
}

}  // namespace ct::update::many
