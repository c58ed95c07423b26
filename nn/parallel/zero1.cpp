#include <cotangent/nn/parallel/zero1.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/nn/module_internal.h>
#include <cotangent/nn/parallel/buckets_internal.h>
#include <cotangent/ops.h>

namespace ct::nn {
namespace {

constexpr char kOp[] = "ParameterShards";

// Memory of its own count of changes within that of `whole`.
Ref<Storage> inside(const Tensor& whole, std::int64_t begin, std::int64_t count) {
  const Ref<Storage>& memory = whole.impl()->storage;
  const auto each = static_cast<std::int64_t>(size_of(whole.dtype()));
  return Storage::wrap(static_cast<std::byte*>(memory->data()) + begin * each,
                       static_cast<std::size_t>(count * each), memory->device(), [memory] {});
}

}  // namespace

struct ParameterShards::Impl {
  struct Part {
    std::size_t place;
    std::int64_t begin, end;  // within the parameter
    Tensor leaf, gradient;
  };

  explicit Impl(DataParallel& parallel) : buckets(parallel.buckets()) {
    CT_CHECK(!buckets.reduced, ValueError, kOp,
             "the DataParallel has shards already; make one ParameterShards of it");
    const NoGrad off_tape;
    for (const nn::detail::Buckets::Bucket& bucket : buckets.buckets)
      params.push_back(
          zeros(bucket.flat.shape(), {.dtype = bucket.flat.dtype(), .device = bucket.flat.device()}));
    for (const nn::detail::Buckets::Place& place : buckets.places) {
      const Tensor& p = place.param;
      CT_CHECK(p.is_contiguous(), ValueError, kOp, "'", place.name, "' is ", describe(p),
               ", which is not contiguous; make it with .contiguous() before it becomes a parameter");
      const Ref<Storage> memory = inside(params[place.bucket], place.begin, p.numel());
      const Tensor moved =
          Tensor::from_storage(memory, p.shape(), contiguous_strides(p.shape()), 0, p.dtype());
      moved.detach().copy_(p.detach());
      nn::detail::take_place(p, moved);
    }
    buckets.reduced = [this] { hand_out(); };
  }
  ~Impl() { buckets.reduced = {}; }

  // This rank's part of a parameter, as elements of it.
  std::pair<std::int64_t, std::int64_t> range(std::size_t i, int rank) const {
    const nn::detail::Buckets::Place& place = buckets.places[i];
    const std::int64_t each = buckets.buckets[place.bucket].flat.numel() / buckets.group.size(),
                       n = place.param.numel();
    const std::int64_t begin = std::clamp<std::int64_t>(rank * each - place.begin, 0, n);
    return {begin, std::clamp<std::int64_t>((rank + 1) * each - place.begin, begin, n)};
  }

  void hand_out() {
    for (Part& part : parts) {
      const nn::detail::Buckets::Place& place = buckets.places[part.place];
      if (!part.gradient.defined())
        part.gradient = Tensor::from_storage(place.view.impl()->storage, {part.end - part.begin}, {1},
                                             place.begin + part.begin, place.view.dtype());
      part.leaf.set_grad(place.param.grad().defined() ? part.gradient : Tensor());
    }
  }

  // A state's tensors are those of parameters, by position: "0.3.exp_avg" is of the fourth of group 0.
  const Part& part_of(const StateDict& state, const std::string& name) const {
    char* end = nullptr;
    const std::int64_t group = std::strtoll(name.c_str(), &end, 10);
    std::int64_t number = *end == '.' ? std::strtoll(end + 1, &end, 10) : -1;
    for (std::int64_t g = 0; g < group && number >= 0; ++g)
      number += state.value<std::int64_t>(ct::detail::cat(g, ".params"));
    CT_CHECK(*end == '.' && number >= 0 && number < static_cast<std::int64_t>(parts.size()), ValueError, kOp,
             "the state has '", name,
             "', which is of none of the parameters; give that of an optimizer over parts() of this model");
    return parts[static_cast<std::size_t>(number)];
  }

  nn::detail::Buckets& buckets;
  std::vector<Tensor> params;  // flat, by bucket
  std::vector<Part> parts;     // in the order in which they were asked for
};

ParameterShards::ParameterShards(DataParallel& parallel) : impl_(std::make_unique<Impl>(parallel)) {}
ParameterShards::~ParameterShards() = default;

std::vector<Tensor> ParameterShards::parts(const std::vector<Tensor>& params) {
  std::vector<Tensor> list;
  for (const Tensor& p : params) {
    const std::size_t i = impl_->buckets.place_of(p, kOp);
    for (const Impl::Part& part : impl_->parts)
      CT_CHECK(part.place != i, ValueError, kOp, "'", impl_->buckets.places[i].name,
               "' was asked for before; a parameter has one optimizer");
    const auto [begin, end] = impl_->range(i, impl_->buckets.group.rank());
    Tensor leaf = Tensor::from_storage(p.impl()->storage, {end - begin}, {1}, begin, p.dtype());
    leaf.set_requires_grad();
    impl_->parts.push_back({i, begin, end, leaf, {}});
    list.push_back(leaf);
  }
  return list;
}

std::vector<Tensor> ParameterShards::whole() const {
  std::vector<Tensor> list;
  for (const Impl::Part& part : impl_->parts) list.push_back(impl_->buckets.places[part.place].param);
  return list;
}

void ParameterShards::gather() {
  const NoGrad off_tape;
  const dist::Group& group = impl_->buckets.group;
  for (const Tensor& flat : impl_->params) {
    const std::int64_t each = flat.numel() / group.size();
    dist::all_gather_into(flat, flat.narrow(0, group.rank() * each, each), group);
  }
  // A part of a parameter that this rank has was counted as changed by the optimizer.
  for (const Impl::Part& part : impl_->parts)
    if (part.begin == part.end) impl_->buckets.places[part.place].param.impl()->storage->bump_version();
}

namespace {
void copy_values(StateDict& to, const StateDict& from) {
  for (const auto& [name, value] : from.values()) to.set_value(name, value);
}
}  // namespace

StateDict ParameterShards::sharded_state(const StateDict& mine) const {
  StateDict state = mine;
  for (const auto& [name, t] : mine) {
    const Impl::Part& part = impl_->part_of(mine, name);
    std::string shape;
    for (const std::int64_t n : impl_->buckets.places[part.place].param.shape())
      shape += ct::detail::cat(shape.empty() ? "" : "x", n);
    state.set_value(name + "@begin", part.begin);
    state.set_value(name + "@shape", shape);
  }
  return state;
}

StateDict ParameterShards::gather_state(const StateDict& mine) const {
  const NoGrad off_tape;
  const dist::Group& group = impl_->buckets.group;
  StateDict whole;
  copy_values(whole, mine);
  for (const auto& [name, t] : mine) {
    const Impl::Part& part = impl_->part_of(mine, name);
    // Parts differ in size: each travels in the room of the largest.
    std::int64_t most = 0;
    for (int r = 0; r < group.size(); ++r) {
      const auto [begin, end] = impl_->range(part.place, r);
      most = std::max(most, end - begin);
    }
    Tensor room = zeros({most}, {.dtype = t.dtype(), .device = t.device()});
    room.narrow(0, 0, t.numel()).copy_(t.reshape({-1}));
    const Tensor all = dist::all_gather(room, group);
    std::vector<Tensor> pieces;
    for (int r = 0; r < group.size(); ++r) {
      const auto [begin, end] = impl_->range(part.place, r);
      pieces.push_back(all.narrow(0, r * most, end - begin));
    }
    whole.set(name, concat(pieces, 0).reshape(impl_->buckets.places[part.place].param.shape()));
  }
  return whole;
}

StateDict ParameterShards::part_of_state(const StateDict& whole) const {
  StateDict mine;
  copy_values(mine, whole);
  for (const auto& [name, t] : whole) {
    const Impl::Part& part = impl_->part_of(whole, name);
    const Tensor& p = impl_->buckets.places[part.place].param;
    CT_CHECK(t.shape() == p.shape(), ValueError, kOp, "'", name, "' is ", describe(t), ", the parameter is ",
             describe(p), "; their shapes must be equal");
    mine.set(name, t.reshape({-1}).narrow(0, part.begin, part.end - part.begin));
  }
  return mine;
}

}  // namespace ct::nn
