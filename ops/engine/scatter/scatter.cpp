#include <cotangent/ops/engine/scatter/scatter.h>

#include <cotangent/ops/engine/walk/copy.h>

namespace ct::scatter_impl {

void take(IndexSite site, const Selection& rows, std::int64_t columns, const Tensor& table,
          std::int64_t stride, const Tensor& y) {
  functions_of(kernel_tables::scatters, y.device()).take(site, rows, columns, table, stride, y);
}

void add(const char* op, const IndexSite* site, const Selection& rows, std::int64_t columns,
         const Tensor& source, const Tensor& table, bool accumulate) {
  if (is_floating(table.dtype()) || table.dtype() == DType::i64)
    return functions_of(kernel_tables::scatters, table.device())
        .add(op, site, rows, columns, source, table, accumulate);
  // Wrapping once at the end gives the same as wrapping at each sum.
  const Tensor wide =
      accumulate ? converted(table, DType::i64) : Tensor::allocate(table.shape(), DType::i64, table.device());
  add(op, site, rows, columns, converted(source, DType::i64), wide, accumulate);
  copy_kernel(table, wide);
}

void set(IndexSite site, const Selection& rows, std::int64_t columns, const Tensor& source,
         const Tensor& table) {
  functions_of(kernel_tables::scatters, table.device()).set(site, rows, columns, source, table);
}

}  // namespace ct::scatter_impl
