#include <cotangent/ops/collective/collective.h>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/autograd/node.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/core/op/execute.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/collective/collective_internal.h>
#include <cotangent/ops/collective/group_internal.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/engine/walk/copy.h>

namespace ct::dist {
namespace {

using detail::CollectiveAttrs;
using detail::GroupState;
using detail::Kind;

std::shared_ptr<GroupState> group_of(const OpDef& op, AttrsView attrs) {
  return detail::group_of(op.name, static_cast<const CollectiveAttrs*>(attrs.data)->group);
}
Group handle_of(const Backward& b) { return Group(group_of(b.op, b.attrs_view)); }

// x is contiguous, y where it does not take the place of a tensor with gaps.
template <class Call>
void run(const Call& call, Kind kind, const Tensor& x, const Tensor& y) {
  const auto& attrs = call.template attrs<CollectiveAttrs>();
  const std::shared_ptr<GroupState> group = group_of(call.op, call.attrs_view);
  if (y.is_contiguous()) return group->run(kind, x, y, attrs.op, attrs.root, attrs.later);
  const Tensor whole = Tensor::allocate(y.shape(), y.dtype(), y.device());
  group->run(kind, x, whole, attrs.op, attrs.root, false);
  copy_kernel(y, whole);
}

template <Kind kind>
void forward(const Forward& call) {
  run(call, kind, call.in(0), call.out());
}

void infer_same(Infer& i) { i.output(i.in(0).shape(), i.in(0).dtype()); }

void check_op(const Infer& i) {
  const ReduceOp op = i.attrs<CollectiveAttrs>().op;
  CT_CHECK(op != ReduceOp::mean || is_floating(i.in(0).dtype()), DTypeError, i.op.name, "the tensor is ",
           describe(i.in(0)), ", which has no mean; use ReduceOp::sum, or convert it with .to(f32)");
}

void infer_reduce(Infer& i) {
  check_op(i);
  infer_same(i);
}

void infer_broadcast(Infer& i) {
  const auto& attrs = i.attrs<CollectiveAttrs>();
  const int size = detail::group_of(i.op.name, attrs.group)->size;
  CT_CHECK(attrs.root >= 0 && attrs.root < size, ValueError, i.op.name, "root is ", attrs.root,
           "; it must lie in [0, ", size, ')');
  infer_same(i);
}

void infer_gather(Infer& i) {
  const std::int64_t size = detail::group_of(i.op.name, i.attrs<CollectiveAttrs>().group)->size;
  Shape shape = i.in(0).shape();
  if (shape.empty())
    shape = {size};
  else
    shape[0] *= size;
  i.output(shape, i.in(0).dtype());
}

void infer_scatter(Infer& i) {
  check_op(i);
  const std::int64_t size = detail::group_of(i.op.name, i.attrs<CollectiveAttrs>().group)->size;
  Shape shape = i.in(0).shape();
  CT_CHECK(!shape.empty() && shape[0] % size == 0, ShapeError, i.op.name, "the tensor is ", describe(i.in(0)),
           "; its first size must be a multiple of the ", size, " ranks");
  shape[0] /= size;
  i.output(shape, i.in(0).dtype());
}

// ---- Gradients ------------------------------------------------------------------------------------------

void all_reduce_backward(const Backward& b) {
  if (b.needs(0)) run(b, Kind::all_reduce, b.grad(), b.grad_in(0));
}
void all_reduce_rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, all_reduce(b.grad(), handle_of(b), b.attrs<CollectiveAttrs>().op));
}

void broadcast_backward(const Backward& b) {
  if (!b.needs(0)) return;
  run(b, Kind::all_reduce, b.grad(), b.grad_in(0));
  if (group_of(b.op, b.attrs_view)->rank != b.attrs<CollectiveAttrs>().root) fill_kernel(b.grad_in(0), 0);
}
void broadcast_rule(const Backward& b) {
  if (!b.needs(0)) return;
  const Group group = handle_of(b);
  const Tensor sum = all_reduce(b.grad(), group);
  b.set_grad_in(0, group.rank() == b.attrs<CollectiveAttrs>().root ? sum : sum * 0);
}

void all_gather_backward(const Backward& b) {
  if (b.needs(0)) run(b, Kind::reduce_scatter, b.grad(), b.grad_in(0));
}
void all_gather_rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, reduce_scatter(b.grad(), handle_of(b)).reshape(b.in_meta(0).shape));
}

Tensor share_of(const Backward& b) {
  const bool mean = b.attrs<CollectiveAttrs>().op == ReduceOp::mean;
  return mean ? b.grad() / group_of(b.op, b.attrs_view)->size : b.grad();
}
void reduce_scatter_backward(const Backward& b) {
  if (b.needs(0)) run(b, Kind::all_gather, share_of(b), b.grad_in(0));
}
void reduce_scatter_rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, all_gather(share_of(b), handle_of(b)));
}

// ---- Ops ------------------------------------------------------------------------------------------------

constexpr InputDef kX[] = {{.name = "x", .contiguous = true}};
constexpr OutputDef kY[] = {{.name = "y", .contiguous = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(CollectiveAttrs, group),
                                   CT_ATTRIBUTE(CollectiveAttrs, op, "sum mean max min prod"),
                                   CT_ATTRIBUTE(CollectiveAttrs, later), CT_ATTRIBUTE(CollectiveAttrs, root)};

consteval OpDef define(const char* name, const char* formula, InferFn infer, Kernels kernels, BackwardFn rule,
                       DTypeSet dtypes) {
  return checked({.name = name,
                  .formula = formula,
                  .inputs = kX,
                  .outputs = kY,
                  .attributes = kAttributes,
                  .infer = infer,
                  .cpu = kernels,
                  .cuda = kernels,
                  .rule = rule,
                  .dtypes = dtypes});
}

constexpr OpDef k_all_reduce =
    define("all_reduce", "y = sum of the ranks' x", infer_reduce,
           {forward<Kind::all_reduce>, all_reduce_backward}, all_reduce_rule, kNumericTypes);
constexpr OpDef k_broadcast =
    define("broadcast", "y = x of rank root", infer_broadcast, {forward<Kind::broadcast>, broadcast_backward},
           broadcast_rule, kAllTypes);
constexpr OpDef k_all_gather =
    define("all_gather", "y = the ranks' x, one behind the other", infer_gather,
           {forward<Kind::all_gather>, all_gather_backward}, all_gather_rule, kAllTypes);
constexpr OpDef k_reduce_scatter =
    define("reduce_scatter", "y = this rank's part of the sum of the ranks' x", infer_scatter,
           {forward<Kind::reduce_scatter>, reduce_scatter_backward}, reduce_scatter_rule, kNumericTypes);

// The current stream's wait for collectives that run beside it. No op for programs.
void join_forward(const Forward& call) { group_of(call.op, call.attrs_view)->join(); }
constexpr InputDef kWritten[] = {{.name = "x", .gradient = false, .written = true}};
constexpr OpDef k_join = checked({.name = "join_collectives",
                                  .formula = "y = x, when the collectives under way are done",
                                  .inputs = kWritten,
                                  .outputs = kY,
                                  .attributes = kAttributes,
                                  .infer = infer_same,
                                  .cpu = {join_forward, nullptr},
                                  .cuda = {join_forward, nullptr},
                                  .dtypes = kAllTypes});

// A recording keeps its groups: a graph that outlives a communicator would crash. So would one of a group that has failed,
// whose next step is a plain one, and throws.
CollectiveAttrs attrs_of(const Group& group, ReduceOp op = ReduceOp::sum, std::int64_t root = 0) {
  if (Recording* const step = ct::detail::recording())
    step->guard(
        "a group that has failed since",
        [kept = detail::group_of("capture", group.state().id)] { return kept->before_replay(); }, false,
        false, &group.state());
  return {group.state().id, op, false, static_cast<std::int32_t>(root)};
}

void check_gradient(const OpDef& op, const Tensor& x, ReduceOp how) {
  CT_CHECK(
      how == ReduceOp::sum || how == ReduceOp::mean || !grad_enabled() || !x.defined() || !x.requires_grad(),
      AutogradError, op.name, "a gradient is wanted of ", describe(x),
      ", and only sums and means have one; detach() it, or call this under NoGrad");
}

// A call off the tape, whose result has its memory.
void write(const OpDef& op, const Tensor& x, Tensor y, const CollectiveAttrs& attrs) {
  const Tensor* inputs[] = {&x};
  const DeviceGuard guard(x.device());
  execute(x.device(), Forward{op, inputs, {&y, 1}, attrs});
  ct::detail::note_change(*y.impl()->storage);
}

}  // namespace

Tensor all_reduce(const Tensor& x, const Group& group, ReduceOp op) {
  check_gradient(k_all_reduce, x, op);
  return dispatch(k_all_reduce, {x}, attrs_of(group, op));
}
Tensor& all_reduce_(Tensor& x, const Group& group, ReduceOp op) {
  check_gradient(k_all_reduce, x, op);
  return dispatch_inplace(k_all_reduce, x, {}, attrs_of(group, op));
}
Tensor&& all_reduce_(Tensor&& x, const Group& group, ReduceOp op) {
  return std::move(all_reduce_(x, group, op));
}

Tensor broadcast(const Tensor& x, const Group& group, Integer root) {
  return dispatch(k_broadcast, {x}, attrs_of(group, ReduceOp::sum, root));
}
Tensor& broadcast_(Tensor& x, const Group& group, Integer root) {
  return dispatch_inplace(k_broadcast, x, {}, attrs_of(group, ReduceOp::sum, root));
}

Tensor all_gather(const Tensor& x, const Group& group) {
  return dispatch(k_all_gather, {x}, attrs_of(group));
}

void all_gather_into(const Tensor& out, const Tensor& x, const Group& group) {
  const char* const op = k_all_gather.name;
  CT_CHECK(out.is_contiguous() && x.is_contiguous() && out.numel() == group.size() * x.numel(), ShapeError,
           op, "can't gather ", describe(x), " of ", group.size(), " ranks into ", describe(out),
           "; both must be contiguous, and out have as many elements as all ranks' x");
  CT_CHECK(out.dtype() == x.dtype(), DTypeError, op, "can't gather ", describe(x), " into ", describe(out),
           "; their dtypes must be equal");
  CT_CHECK(out.device() == x.device(), DeviceError, op, "can't gather ", describe(x), " on ", x.device(),
           " into a tensor on ", out.device(), "; they must be on one device");
  write(k_all_gather, x, out, attrs_of(group));
}

Tensor reduce_scatter(const Tensor& x, const Group& group, ReduceOp op) {
  check_gradient(k_reduce_scatter, x, op);
  return dispatch(k_reduce_scatter, {x}, attrs_of(group, op));
}

void barrier(const Group& group) {
  ct::detail::note_read("barrier");
  group.state().run(Kind::barrier, {}, {}, ReduceOp::sum, 0, false);
}

void detail::all_reduce_later(const Tensor& x, const Group& group, ReduceOp op) {
  CollectiveAttrs attrs = attrs_of(group, op);
  attrs.later = true;
  write(k_all_reduce, x, x, attrs);
}
void detail::join(const Tensor& x, const Group& group) {
  if (x.device().is_cuda()) write(k_join, x, x, attrs_of(group));
}

}  // namespace ct::dist

namespace ct {
CT_ROOM(collective, &dist::k_all_reduce, &dist::k_broadcast, &dist::k_all_gather, &dist::k_reduce_scatter)
}  // namespace ct
