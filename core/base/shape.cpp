#include <cotangent/core/base/shape.h>

#include <ostream>

namespace ct {

void Dims::insert(int at, std::int64_t value) {
  push_back(value);
  for (int i = size_ - 1; i > at; --i) data_[i] = data_[i - 1];
  data_[at] = value;
}

void Dims::erase(int at) {
  for (int i = at; i + 1 < size_; ++i) data_[i] = data_[i + 1];
  --size_;
}

int expanded_axis(const Shape& shape, const Strides& strides) {
  for (int i = 0; i < shape.size(); ++i)
    if (strides[i] == 0 && shape[i] > 1) return i;
  return -1;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  std::int64_t step = 1;
  bool contiguous = true;
  for (int i = shape.size() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] == 1) continue;
    contiguous = contiguous && strides[i] == step;
    step *= shape[i];
  }
  return contiguous;
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape out = longer;
  const int offset = longer.size() - shorter.size();
  for (int i = 0; i < shorter.size(); ++i) {
    std::int64_t& size = out[offset + i];
    if (size == shorter[i] || shorter[i] == 1) continue;
    CT_CHECK(size == 1, ShapeError, op, "shapes ", a, " and ", b,
             " do not broadcast; aligned at the right, sizes must be equal or 1");
    size = shorter[i];
  }
  return out;
}

Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target) {
  Strides out = Strides::filled(target.size(), 0);
  const int offset = target.size() - shape.size();
  for (int i = 0; i < shape.size(); ++i) out[offset + i] = shape[i] == 1 ? 0 : strides[i];
  return out;
}

int wrap_axis(const char* op, std::int64_t axis, int rank) {
  const std::int64_t limit = rank > 0 ? rank : 1;
  CT_CHECK(axis >= -limit && axis < limit, ShapeError, op, "axis ", axis,
           " is out of range for a tensor of rank ", rank, "; it must lie in [", -limit, ", ", limit - 1,
           "]");
  return static_cast<int>(axis < 0 ? axis + limit : axis);
}

void check_sizes(const char* op, const Shape& shape) {
  std::int64_t n = 1;
  for (std::int64_t s : shape) {
    CT_CHECK(s >= 0, ShapeError, op, "shape ", shape, " has a negative size; sizes must be >= 0");
    CT_CHECK(!__builtin_mul_overflow(n, s, &n), ShapeError, op, "shape ", shape,
             " has more than 2^63 elements; make it smaller");
  }
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (int i = 0; i < dims.size(); ++i) text.append(i ? ", " : "").append(std::to_string(dims[i]));
  return text + ']';
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << to_string(dims); }

}  // namespace ct
