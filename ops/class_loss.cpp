#include <cotangent/core/index_error.h>
#include <cotangent/ops/class_loss_internal.h>

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

}  // namespace ct::loss
