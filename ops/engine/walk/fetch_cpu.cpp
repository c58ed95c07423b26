#include <cstring>

#include <cotangent/ops/engine/walk/fetch.h>

namespace ct {

void fetch_cpu(std::span<const Fetch> list) {
  for (const Fetch& f : list)
    if (const void* const from = reinterpret_cast<const void*>(*f.source); from != f.to)
      std::memcpy(f.to, from, static_cast<std::size_t>(f.bytes));
}

}  // namespace ct

CT_FUNCTIONS(cpu, FetchFunctions, fetching, fetch_cpu)
