#include <cub/device/device_radix_sort.cuh>

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/scatter/pair_sort_cuda.h>

namespace ct::scatter_impl {
namespace {

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

PairSort::PairSort(const char* op, unsigned n) : op_(op), n_(n), array_bytes_(padded(n * sizeof(unsigned))) {
  sort(32);  // without memory: only tells how much it needs
  sort_bytes_ = padded(sort_bytes_);
}

char* PairSort::place(void* memory) {
  char* at = static_cast<char*>(memory);
  for (int k = 0; k < 2; ++k) {
    keys_[k] = reinterpret_cast<unsigned*>(at + 2 * k * array_bytes_);
    places_[k] = reinterpret_cast<unsigned*>(at + (2 * k + 1) * array_bytes_);
  }
  memory_ = at + 4 * array_bytes_;
  return at + bytes();
}

void PairSort::sort(int bits) {
  cub::DoubleBuffer<unsigned> k(keys_[0], keys_[1]), p(places_[0], places_[1]);
  CT_CUDA_OP(op_, cub::DeviceRadixSort::SortPairs(memory_, sort_bytes_, k, p, static_cast<int>(n_), 0, bits,
                                                  gpu::native_stream()));
  if (!memory_) return;
  if (k.Current() != keys_[0]) std::swap(keys_[0], keys_[1]);
  if (p.Current() != places_[0]) std::swap(places_[0], places_[1]);
}

}  // namespace ct::scatter_impl
