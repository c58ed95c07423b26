#include <cotangent/autograd/autocast_mode.h>

#include <memory>
#include <unordered_map>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/per_thread.h>
#include <cotangent/core/device/stream.h>

namespace ct::detail {
namespace {

struct CachedWeight {
  Ref<TensorImpl> source;  // keeps its address from being given to another tensor
  Ref<Storage> storage;    // the same of its memory
  std::uint32_t version = 0;
  Stream stream;
  Tensor converted;

  bool serves(const Tensor& t, DType dtype) const {
    const Ref<Storage>& now = t.impl()->storage;
    // A copy that was converted without the tape carries no gradient.
    return converted.dtype() == dtype && storage == now && version == now->version() &&
           stream == current_stream(t.device()) && (converted.requires_grad() || !grad_enabled());
  }
};
using Cache = std::unordered_map<const TensorImpl*, CachedWeight>;

struct ThreadCache {
  std::unique_ptr<Cache> weights;
  int depth = 0;  // of guards
};
ThreadCache& thread_cache() { return per_thread<ThreadCache>(); }

}  // namespace

AutocastMode& autocast_mode() {
  static constinit thread_local AutocastMode mode;
  return mode;
}

Tensor autocast_convert(const Tensor& t, DType dtype) {
  const bool weight = autocast_mode().cache_weights && is_low_precision(dtype) && t.dtype() == DType::f32 &&
                      t.requires_grad() && t.is_leaf();
  if (!weight) return t.to(dtype);
  std::unique_ptr<Cache>& weights = thread_cache().weights;
  if (!weights) weights = std::make_unique<Cache>();
  CachedWeight& entry = (*weights)[t.impl()];
  if (!entry.source || !entry.serves(t, dtype)) {
    entry = {};  // the old copy's memory is free for the new one
    const Tensor converted = t.to(dtype);
    const Ref<Storage>& storage = t.impl()->storage;
    entry = {t.ref(), storage, storage->version(), current_stream(t.device()), converted};
  }
  return entry.converted;
}

AutocastModeGuard::AutocastModeGuard(const AutocastMode& mode, bool apart)
    : previous_(autocast_mode()), apart_(apart) {
  ThreadCache& cache = thread_cache();
  if (apart) outer_cache_ = cache.weights.release();
  ++cache.depth;
  autocast_mode() = mode;
}

AutocastModeGuard::~AutocastModeGuard() {
  ThreadCache& cache = thread_cache();
  autocast_mode() = previous_;
  if (--cache.depth == 0 || apart_) cache.weights.reset();
  if (apart_) cache.weights.reset(static_cast<Cache*>(outer_cache_));
}

}  // namespace ct::detail
