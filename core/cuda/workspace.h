#pragma once

#include <cstddef>

#include <cotangent/core/memory/allocator.h>

namespace ct::gpu {

/// Scratch memory for the work that is queued during its life. It comes from the caching allocator on the
/// current stream, where giving it back while that work still runs is right: whoever gets the block next
/// is queued behind. So no two streams ever share a workspace, and a captured graph keeps its own.
class CT_API Workspace {
 public:
  explicit Workspace(std::size_t bytes);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Stream stream_;
  Allocator* allocator_;
  std::size_t bytes_;
  void* data_;
};

}  // namespace ct::gpu
