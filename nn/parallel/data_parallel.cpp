#include <cotangent/nn/parallel/data_parallel.h>

#include <algorithm>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/autograd/node.h>
#include <cotangent/nn/parallel/buckets_internal.h>
#include <cotangent/ops.h>

namespace ct::nn {
namespace detail {
namespace {

constexpr char kOp[] = "DataParallel";
constexpr std::int64_t kFirstBytes = 1 << 20;
constexpr std::int64_t kAlign =
    128;  // elements: whole lines of memory for every parameter and every rank's part

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace

Buckets::Buckets(const Module& module, const dist::Group& the_group, const DataParallelOptions& options)
    : group(the_group) {
  CT_CHECK(options.bucket_bytes >= 1, ValueError, kOp, "bucket_bytes is ", options.bucket_bytes,
           "; it must be >= 1");
  CT_CHECK(!options.wire || is_low_precision(*options.wire), ValueError, kOp, "wire is ", *options.wire,
           "; it must be bf16 or f16");
  std::vector<Named<Tensor>> params = module.named_parameters();
  const NoGrad off_tape;
  for (const auto& list : {params, module.named_buffers()})
    for (const Named<Tensor>& entry : list) {
      CT_CHECK(entry.value.device() == group.device(), DeviceError, kOp, "'", entry.name, "' is on ",
               entry.value.device(), ", the group's rank works on ", group.device(),
               "; call model.to(group.device()) first");
      Tensor t = entry.value;
      dist::broadcast_(t, group);
    }
  std::reverse(params.begin(), params.end());
  std::erase_if(params, [](const Named<Tensor>& p) { return !p.value.requires_grad(); });
  CT_CHECK(!params.empty(), ValueError, kOp,
           "the model has no parameters that require a gradient; give one that is to be trained");

  // Buckets of one dtype, filled in turn.
  const std::int64_t whole = kAlign * group.size();
  std::vector<std::int64_t> sizes;
  for (const Named<Tensor>& p : params) {
    const DType dtype = p.value.dtype();
    const std::int64_t n = rounded_up(p.value.numel(), kAlign),
                       each = static_cast<std::int64_t>(size_of(dtype));
    const std::int64_t most =
        std::min(options.bucket_bytes, buckets.size() <= 1 ? kFirstBytes : options.bucket_bytes);
    if (buckets.empty() || places.back().param.dtype() != dtype || (sizes.back() + n) * each > most)
      buckets.emplace_back(), sizes.push_back(0);
    buckets.back().members.push_back(places.size());
    places.push_back({p.name, p.value, {}, buckets.size() - 1, sizes.back()});
    sizes.back() += n;
  }
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    Bucket& bucket = buckets[b];
    bucket.left = bucket.members.size();
    const DType dtype = places[bucket.members[0]].param.dtype();
    bucket.flat = zeros({rounded_up(sizes[b], whole)}, {.dtype = dtype, .device = group.device()});
    if (options.wire && dtype == DType::f32)
      bucket.wire = empty(bucket.flat.shape(), {.dtype = *options.wire, .device = group.device()});
    for (const std::size_t i : bucket.members) {
      Place& place = places[i];
      const Shape& shape = place.param.shape();
      place.view = Tensor::from_storage(bucket.flat.impl()->storage, shape, contiguous_strides(shape),
                                        place.begin, dtype);
    }
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    Place& place = places[i];
    if (place.param.grad().defined()) come_home(place);
    place.hook = place.param.register_post_accumulate_hook([this, i](const Tensor&) { arrive(i); });
  }
}

Buckets::~Buckets() {
  for (const Place& place : places) place.param.remove_hook(place.hook);
}

std::size_t Buckets::place_of(const Tensor& param, const char* op) const {
  const auto found = std::ranges::find_if(places, [&](const Place& p) { return p.param.is_same(param); });
  CT_CHECK(found != places.end(), ValueError, op, "the parameter ", describe(param),
           " is none of the model's that require a gradient; give those of the DataParallel's module");
  return static_cast<std::size_t>(found - places.begin());
}

// A gradient that backward has made elsewhere.
void Buckets::come_home(Place& place) {
  const Tensor gradient = place.param.grad();
  if (gradient.defined() && gradient.raw_data() == place.view.raw_data() && gradient.is_contiguous()) return;
  const NoGrad off_tape;
  Tensor view = place.view.detach();
  if (gradient.defined())
    view.copy_(gradient.detach());
  else
    view.zero_();
  place.param.set_grad(view);
}

void Buckets::arrive(std::size_t i) {
  if (off > 0) return;
  Place& place = places[i];
  if (place.arrived) {
    std::string missing;
    for (const Place& p : places)
      if (!p.arrived) missing += (missing.empty() ? "'" : ", '") + p.name + "'";
    ct::detail::fail<AutogradError>(
        kOp, "'", place.name, "' got a second gradient, and in the backward() before ", missing,
        " had none; call synchronize() after a backward() in which not all parameters have a part");
  }
  place.arrived = true;
  come_home(place);
  --buckets[place.bucket].left;
  launch();
  if (next == buckets.size()) finish();
}

void Buckets::launch() {
  for (; next < buckets.size() && buckets[next].left == 0; ++next) {
    Bucket& bucket = buckets[next];
    if (bucket.wire.defined()) bucket.wire.copy_(bucket.flat);
    dist::detail::all_reduce_later(bucket.wire.defined() ? bucket.wire : bucket.flat, group,
                                   dist::ReduceOp::mean);
  }
}

void Buckets::finish() {
  dist::detail::join(buckets.back().flat, group);
  next = 0;
  for (Bucket& bucket : buckets) {
    bucket.left = bucket.members.size();
    if (bucket.wire.defined()) bucket.flat.copy_(bucket.wire);
  }
  for (Place& place : places) place.arrived = false;
  if (reduced) reduced();
}

void Buckets::synchronize() {
  const NoGrad off_tape;
  if (std::ranges::none_of(places, &Place::arrived)) return;
  for (Place& place : places)
    if (!place.arrived) come_home(place);
  for (Bucket& bucket : buckets) bucket.left = 0;
  launch();
  finish();
}

}  // namespace detail

DataParallel::DataParallel(const Module& module, const dist::Group& group, const DataParallelOptions& options)
    : buckets_(std::make_unique<detail::Buckets>(module, group, options)) {}
DataParallel::~DataParallel() = default;

const dist::Group& DataParallel::group() const { return buckets_->group; }

void DataParallel::zero_grad() {
  const NoGrad off_tape;
  for (detail::Buckets::Bucket& bucket : buckets_->buckets) bucket.flat.zero_();
  for (detail::Buckets::Place& place : buckets_->places) {
    const Tensor gradient = place.param.grad();
    if (!gradient.defined() || gradient.raw_data() != place.view.raw_data())
      place.param.set_grad(place.view.detach());
  }
}

DataParallel::NoSync::NoSync(detail::Buckets& buckets) : buckets_(buckets) { ++buckets_.off; }
DataParallel::NoSync::~NoSync() { --buckets_.off; }
DataParallel::NoSync DataParallel::no_sync() { return NoSync(*buckets_); }

void DataParallel::synchronize() { buckets_->synchronize(); }

std::vector<std::int64_t> DataParallel::bucket_bytes() const {
  std::vector<std::int64_t> list;
  for (const detail::Buckets::Bucket& bucket : buckets_->buckets) list.push_back(bucket.flat.nbytes());
  return list;
}

// ---- SyncBatchNorm --------------------------------------------------------------------------------------

SyncBatchNorm::SyncBatchNorm(std::int64_t num_features, const dist::Group& group,
                             const BatchNormOptions& options)
    : BatchNorm("SyncBatchNorm", num_features, options), group_(group) {}

Tensor SyncBatchNorm::forward(const Tensor& x) const {
  check_rank(x, 2, kMaxRank, "[N, C, ...]");
  const bool tracked = running_mean_.defined();
  if (group_.size() == 1 || (tracked && !is_training())) return normalized(x);
  check_channels(x, 1);
  const DType wide = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  Dims axes;
  Shape channels;
  for (int d = 0; d < x.dim(); ++d) {
    channels.push_back(d == 1 ? size_ : 1);
    if (d != 1) axes.push_back(d);
  }
  // The count travels with the sums: ranks may have different shares of the batch.
  const Tensor input = x.to(wide);
  const Tensor own = full({1}, static_cast<double>(x.numel() / std::max<std::int64_t>(size_, 1)),
                          {.dtype = wide, .device = x.device()});
  const Tensor sums = dist::all_reduce(concat({sum(input, axes), own}, 0), group_);
  const Tensor count = sums.narrow(0, size_, 1).detach();
  const Tensor mean = sums.narrow(0, 0, size_) / count;
  const Tensor centered = input - mean.reshape(channels);
  const Tensor variance = dist::all_reduce(sum(square(centered), axes), group_) / count;
  if (tracked) {
    const NoGrad off_tape;
    Tensor batches = num_batches_tracked_, running_mean = running_mean_, running_var = running_var_;
    batches.add_(1);
    const Tensor share =
        momentum_ ? full({}, *momentum_, {.dtype = wide, .device = x.device()}) : 1 / batches.to(wide);
    running_mean.copy_(running_mean + share * (mean - running_mean));
    running_var.copy_(running_var + share * (variance * count / (count - 1) - running_var));
  }
  Tensor y = centered * rsqrt(variance + eps_).reshape(channels);
  if (weight_.defined()) y = y * weight_.reshape(channels).to(wide) + bias_.reshape(channels).to(wide);
  return y.to(x.dtype());
}

}  // namespace ct::nn
