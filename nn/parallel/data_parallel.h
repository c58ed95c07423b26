#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/module.h>
#include <cotangent/nn/normalization.h>
#include <cotangent/ops/collective/collective.h>

// Training on several ranks, each of which has the whole model and a share of each batch.

namespace ct::nn {

struct DataParallelOptions {
  /// Bytes of gradients that go over the wire at once; the first bucket, that of the last layers, has at most 1 MB.
  std::int64_t bucket_bytes = 25 << 20;
  /// bf16 or f16 halves the bytes of f32 gradients on the wire. Left out: the gradients' own dtype.
  std::optional<DType> wire = {};
};

namespace detail {
struct Buckets;
}

/// Data parallel training, as torch.nn.parallel.DistributedDataParallel: every rank's backward() ends with the mean of all
/// ranks' gradients, which, with losses that are means over equal shares, is the gradient of the whole batch.
///
///     dist::Group world = dist::init();
///     model.to(world.device());
///     nn::DataParallel parallel(model, world);
///     data::DataLoader batches(images, {.batch_size = 128 / world.size(),
///                                       .sampler = data::DistributedSampler(images.size(), {world.size(), world.rank()})});
///     for (const auto& [x, y] : batches) {
///       parallel.zero_grad();
///       ct::cross_entropy(model.forward(x), y).backward();
///       adam.step();
///     }
///
/// Gradients lie in flat buckets, in the reverse order of the parameters. A bucket is reduced when its last gradient is there
/// and those before it are on their way, on a GPU beside the rest of backward; the order is the same on all ranks and in every
/// run. backward() ends when all are under way, and what is queued behind it, on the current stream, sees the means. So clipping,
/// GradScaler and optimizers work as on one rank, on the same gradients everywhere. A captured step (ct::capture) has the
/// communication in it.
///
/// The model is called as before. Parameters and buffers are rank 0's at first; buffers go their own ways then (SyncBatchNorm
/// has statistics of all ranks). The model must keep its parameters, their dtype and device while this object lives.
class CT_API DataParallel {
 public:
  /// Collective. Throws PeerError where the ranks' models differ, ValueError for a model without parameters that require a
  /// gradient, for bucket_bytes < 1 or a wire that is not 16 bits, DeviceError for one that is not on the group's device.
  DataParallel(const Module& module, const dist::Group& group, const DataParallelOptions& options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  const dist::Group& group() const;

  /// Fills the gradients with zeros, bucket by bucket. With an optimizer's zero_grad() they would be made anew elsewhere, and
  /// copied into the buckets.
  void zero_grad();

  /// While it lives, this thread's backward() calls add up gradients on their rank alone: all micro-steps of an update but the
  /// last.
  class CT_API NoSync {
   public:
    [[nodiscard]] explicit NoSync(detail::Buckets& buckets);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    detail::Buckets& buckets_;
  };
  [[nodiscard]] NoSync no_sync();

  /// Ends a backward() in which some parameters had no part: they count with the gradients that they have, or zeros. Nothing to
  /// do where all had; without it the next backward() throws AutogradError. Collective.
  void synchronize();

  /// Bytes of each bucket, in the order in which they are reduced.
  std::vector<std::int64_t> bucket_bytes() const;

  /// For those who shard what belongs to a parameter (Zero1).
  detail::Buckets& buckets() const { return *buckets_; }

 private:
  std::unique_ptr<detail::Buckets> buckets_;
};

/// batch_norm with the statistics of all ranks' batches, over all axes of x [N, C, ...] but the second; as
/// torch.nn.SyncBatchNorm. In evaluation, and in a group of one rank, it is BatchNorm. Its gradient is that of the sum of the
/// ranks' losses. Batches may differ in size.
class CT_API SyncBatchNorm : public detail::BatchNorm {
 public:
  /// Throws as BatchNorm1d.
  SyncBatchNorm(std::int64_t num_features, const dist::Group& group, const BatchNormOptions& options = {});
  /// Throws ShapeError unless x is [N, C, ...] with num_features channels.
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  dist::Group group_;
};

}  // namespace ct::nn
