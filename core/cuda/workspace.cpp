#include <cotangent/core/cuda/workspace.h>

namespace ct::gpu {

Workspace::Workspace(std::size_t bytes)
    : stream_(current_stream(cuda(current_cuda_device()))),
      allocator_(&current_allocator(stream_.device)),
      bytes_(bytes),
      data_(bytes ? allocator_->allocate(bytes, stream_) : nullptr) {}

Workspace::~Workspace() {
  if (data_) allocator_->deallocate(data_, bytes_, stream_);
}

}  // namespace ct::gpu
