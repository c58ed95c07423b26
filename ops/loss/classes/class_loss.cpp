#include <cotangent/core/device/index_error.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/loss/classes/class_loss_internal.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/rules_internal.h>
#include <cotangent/ops/softmax/softmax.h>

namespace ct::loss {

Shape without_classes(const Shape& scores) {
  Shape s = scores;
  s.erase(scores.size() == 1 ? 0 : 1);
  return s;
}

void check_scores(const char* op, const char* what, const Tensor& scores, const Tensor& weight) {
  CT_CHECK(scores.dim() > 0, ShapeError, op, what, " is ", describe(scores),
           "; it must be [classes], [n, classes] or [n, classes, ...]");
  const std::int64_t classes = scores.size(scores.dim() == 1 ? 0 : 1);
  CT_CHECK(classes > 0, ShapeError, op, what, " is ", describe(scores), "; there must be at least one class");
  CT_CHECK(!weight.defined() || (weight.dim() == 1 && weight.size(0) == classes), ShapeError, op,
           "weight is ", describe(weight), ", ", what, " is ", describe(scores), "; weight must be [",
           classes, "], one per class");
}

void check_label_tensor(const char* op, const char* what, const Tensor& scores, const Tensor& labels) {
  const Shape want = without_classes(scores.shape());
  CT_CHECK(labels.shape() == want, ShapeError, op, "target is ", describe(labels), ", ", what, " is ",
           describe(scores), "; class labels must have shape ", want, ", one per row");
  CT_CHECK(labels.dtype() == DType::i64 || labels.dtype() == DType::i32, DTypeError, op, "target is ",
           describe(labels), "; class labels must be i64 or i32: convert with .to(i64)");
}

void check_label_values(const char* op, const Labels& labels, const ClassLayout& layout,
                        std::int64_t ignore_index) {
  const std::int64_t rows = layout.rows();
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t label = labels[r];
    if (label != ignore_index && (label < 0 || label >= layout.classes))
      throw_index_error(op, IndexKind::class_label, label, layout.classes);
  }
}

Tensor along_classes(const Tensor& weight, const Shape& scores) {
  if (!weight.defined()) return weight;
  Shape shape = Shape::filled(scores.size(), 1);
  shape[class_axis(scores)] = weight.numel();
  return weight.reshape(shape);
}

Tensor label_targets(const Tensor& labels, const Tensor& weight, const TensorMeta& scores,
                     std::int64_t ignore_index, double smoothing) {
  const int axis = class_axis(scores.shape);
  const std::int64_t classes = scores.shape[axis];
  const Tensor counts = ne(labels, ignore_index).unsqueeze(axis);
  const Tensor w = along_classes(weight, scores.shape);
  Tensor targets = rules::one_hot(labels, axis, classes, scores.dtype);
  if (smoothing > 0) targets = targets * (1 - smoothing) + smoothing / static_cast<double>(classes);
  if (w.defined()) targets = targets * w;
  return where(counts, targets, 0);
}

Tensor label_cotangents(const Tensor& g, Reduction reduction, const Tensor& labels, std::int64_t ignore_index,
                        const Tensor& divisor) {
  const Tensor counts = ne(labels, ignore_index);
  // Where no row counts the divisor is 0 or NaN.
  const Tensor each = reduction == Reduction::mean ? g / where(counts, divisor.to(g.dtype()), 1)
                                                   : rules::spread(g, reduction, labels.shape());
  return where(counts, each, 0);
}

Tensor cross_entropy_label_slope(const Tensor& x, const Tensor& labels, std::int64_t ignore_index,
                                 const Tensor& targets, const Tensor& g) {
  const Tensor counts = ne(labels, ignore_index).unsqueeze(class_axis(x.shape()));
  return cross_entropy_slope(where(counts, x, 0), targets, g);
}

Tensor cross_entropy_slope(const Tensor& x, const Tensor& targets, const Tensor& g) {
  const int axis = class_axis(x.shape());
  const Tensor weights = sum(targets, {axis}, true);
  return (softmax(x, axis) * weights - targets) * g.unsqueeze(axis);
}

}  // namespace ct::loss
