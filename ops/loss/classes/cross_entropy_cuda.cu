#include <string>

#include <cotangent/ops/loss/classes/cross_entropy_rows.cuh>

extern "C" [[gnu::visibility("hidden")]] const char cotangent_loss_classes[];

namespace ct {
namespace {

constexpr long long kThreadRow = 32;    // up to so many classes a thread takes a row,
constexpr long long kWarpRow = 2048;    // up to so many a warp, beyond that a block
constexpr unsigned kRowBlocks = 16384;  // at most

// A kernel in its text (losses_text_cuda.cpp): whether it reads logits, and writes their gradient, by vectors or one by one.
struct InText {
  const char* call;
  bool forward, gradient, vectors;

  template <class T, Target kTarget>
  detail::KernelText of() const {
    return {cotangent_loss_classes,
            call,
            std::string(forward ? "Forward" : "Backward") + "Call<" + detail::type_text<T>() + ", Target(" +
                std::to_string(static_cast<int>(kTarget)) + ")>",
            vectors ? gpu::Vector<T>::size : 1,
            forward,
            gradient};
  }
};
// A launch of the library's kernel, or of that in formulas. False where it takes them not.
template <class T, Target kTarget, template <class, Target> class Call>
bool launch(const char* op, void (*kernel)(Call<T, kTarget>), unsigned blocks, unsigned threads,
            const Call<T, kTarget>& call, const detail::Around* around, const InText& in_text) {
  if (around)
    if (const auto text = in_text.of<T, kTarget>(); around->wraps(text))
      return around->launch(op, text, blocks, threads, 1, 0, &call, sizeof call);
  if (!around || around->ask == detail::Around::Ask::run)
    gpu::launch_waiting(op, kernel, blocks, threads, 0, call);
  return true;
}

// Whether every row of a contiguous tensor starts at a multiple of 16 bytes.
template <class T>
bool has_vectors(const T* x, const ClassLayout& layout) {
  return layout.inner == 1 && layout.classes % gpu::Vector<T>::size == 0 && gpu::is_aligned(x, 16);
}

// Threads of a row, vectors that they read of it, and blocks.
struct RowShape {
  int size;
  long long vectors;
  unsigned blocks;
};
template <class T, Target kTarget>
RowShape row_shape(const Rows<T, kTarget>& rows) {
  const ClassLayout& layout = rows.layout;
  constexpr long long threads = loss::kReduceThreads;
  constexpr bool picked = kTarget == Target::picked;
  const bool alone = picked || layout.inner > 1 || layout.classes <= kThreadRow;
  const long long size = alone ? 1 : layout.classes > kWarpRow ? threads : 32, together = threads / size;
  const long long vectors = !alone && has_vectors(rows.x, layout) ? layout.classes / gpu::Vector<T>::size : 0;
  long long blocks =
      together > 1 && layout.count() <= loss::kOneBlock ? 1 : gpu::ceil_div(layout.rows(), together);
  blocks = picked                ? loss::sum_blocks(layout.rows())
           : blocks < 1          ? 1
           : blocks > kRowBlocks ? kRowBlocks
                                 : blocks;
  return {static_cast<int>(size), vectors, static_cast<unsigned>(blocks)};
}
// Where the sum of a call goes.
template <class T, Target kTarget>
loss::Sums<T> sums_of(const Rows<T, kTarget>& rows, Reduction reduction, T* out) {
  const bool reduce = reduction != Reduction::none, mean = reduction == Reduction::mean;
  return {nullptr, compute_t<T>(mean ? 0 : 1), reduce ? out : nullptr, mean ? &rows.divisor() : nullptr};
}

template <class T, Target kTarget>
ForwardCall<T, kTarget> forward_call(const Rows<T, kTarget>& rows, Reduction reduction, T* out) {
  const RowShape shape = row_shape(rows);
  const bool reduce = reduction != Reduction::none;
  return {rows, shape.size, shape.vectors, reduce, reduce ? nullptr : out, sums_of(rows, reduction, out)};
}

template <class T, Target kTarget>
bool run_forward(const Rows<T, kTarget>& rows, Reduction reduction, T* out, const detail::Around* around) {
  const ForwardCall<T, kTarget> whole = forward_call(rows, reduction, out);
  bool done = true;
  loss::reduce<T>(rows.site.op, row_shape(rows).blocks, whole.reduce, whole.sums, around,
                  [&](unsigned blocks, const loss::Sums<T>& sums) {
                    ForwardCall<T, kTarget> call = whole;
                    call.sums = sums;
                    done =
                        launch(rows.site.op, cross_entropy_kernel<T, kTarget>, blocks, loss::kReduceThreads,
                               call, around, {"forward_rows(a, load)", true, false, call.vectors > 0});
                  });
  return done;
}

template <class T, Target kTarget>
bool run_backward(const Rows<T, kTarget>& rows, Reduction reduction, const T* g, T* dx, T* dt,
                  const detail::Around* around) {
  const ClassLayout& layout = rows.layout;
  const BackwardCall<T, kTarget> call{rows, g, reduction == Reduction::none, dx, dt};
  if constexpr (gpu::kFastShapes<T> && kTarget != Target::picked) {
    if (layout.classes >= 1024 && has_vectors(rows.x, layout) && (!rows.t || gpu::is_aligned(rows.t, 16))) {
      const long long count = layout.rows();
      const unsigned blocks = static_cast<unsigned>(count < kRowBlocks ? count : kRowBlocks);
      return launch(rows.site.op, row_gradient_kernel<T, kTarget>, blocks, loss::kThreads, call, around,
                    {"gradient_rows(a, store)", false, true, true});
    }
  }
  return launch(rows.site.op, cross_entropy_gradient_kernel<T, kTarget>,
                gpu::grid_stride_blocks(layout.count(), loss::kThreads), loss::kThreads, call, around,
                {"gradient_elements(a, store)", false, true, false});
}

IndexSite site(const char* op) { return {op, IndexKind::class_label}; }

template <Target kTarget>
bool run_forward(const Forward& f, const detail::Around* around) {
  bool done = false;
  loss::classes::forward<kTarget>(
      f, [&]<class T, Target k>(const CrossEntropyRows<T, k>& rows, Reduction reduction, T* out) {
        done = run_forward(Rows<T, k>{rows, gpu::index_errors(), site(f.op.name)}, reduction, out, around);
      });
  return done;
}

template <Target kTarget>
bool run_backward(const Backward& b, const detail::Around* around) {
  bool done = false;
  loss::classes::backward<kTarget>(b, [&]<class T, Target k>(const CrossEntropyRows<T, k>& rows,
                                                             Reduction reduction, const T* g, T* dx, T* dt) {
    done = run_backward(Rows<T, k>{rows, gpu::index_errors(), site(b.op.name)}, reduction, g, dx, dt, around);
  });
  return done;
}

// Labels in f32, of few elements.
bool run_with_gradient(const Forward& f, const detail::Around* around) {
  constexpr long long kMost = 4096;  // beyond that one block takes longer than two launches
  const auto in_two = [&] {
    bool done = true;
    cross_entropy_in_two(
        f, [&](const Forward& first) { done = run_forward<Target::label>(first, around); },
        [&](const Backward& then) { done = run_backward<Target::label>(then, around) && done; });
    return done;
  };
  const auto& attrs = f.attrs<CrossEntropyAttrs>();
  const ClassLayout layout(f.in(0).shape());
  if (f.in(0).dtype() != DType::f32 || attrs.reduction == Reduction::none || attrs.label_smoothing > 0 ||
      layout.count() > kMost)
    return in_two();
  using Own = Rows<float, Target::label>;
  const auto optional = [](const Tensor& t) { return t.defined() ? t.data<float>() : nullptr; };
  const CrossEntropyRows<float, Target::label> operands{
      layout, loss::Labels(f.in(1)), f.in(0).data<float>(), nullptr, optional(f.in(2)),
      0,      attrs.ignore_index,    f.out(1).data<float>()};
  const Own rows{operands, gpu::index_errors(), site("cross_entropy")};
  if (row_shape(rows).blocks != 1) return in_two();
  auto call = forward_call(rows, attrs.reduction, f.out().data<float>());
  call.g = f.in(3).data<float>(), call.dx = f.out(2).data<float>();
  return launch(rows.site.op, cross_entropy_with_gradient_kernel<float, Target::label>, 1,
                loss::kReduceThreads, call, around,
                {"rows_with_gradient(a, load, store)", true, true, false});
}

template <Target kTarget>
void forward_cuda(const Forward& f) {
  run_forward<kTarget>(f, nullptr);
}
template <Target kTarget>
void backward_cuda(const Backward& b) {
  run_backward<kTarget>(b, nullptr);
}
void with_gradient_cuda(const Forward& f) { run_with_gradient(f, nullptr); }

template <Target kTarget>
constexpr detail::AroundRecord kAround{true, run_forward<kTarget>, run_backward<kTarget>};
constexpr detail::AroundRecord kAroundBoth{true, run_with_gradient};

}  // namespace
}  // namespace ct

CT_KERNELS(cuda, cross_entropy, {"cross_entropy", forward_cuda<Target::label>, backward_cuda<Target::label>},
           {"cross_entropy_soft", forward_cuda<Target::soft>, backward_cuda<Target::soft>},
           {"nll_loss", forward_cuda<Target::picked>, backward_cuda<Target::picked>},
           forward_only("cross_entropy_with_gradient", with_gradient_cuda),
           forward_only("cross_entropy around", hand_out<kAround<Target::label>>),
           forward_only("cross_entropy_soft around", hand_out<kAround<Target::soft>>),
           forward_only("cross_entropy_with_gradient around", hand_out<kAroundBoth>))
