#include <cotangent/ops/indexing/embedding_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using indexing_impl::embedded::Attrs;

Attrs padding(std::int64_t idx) { return {idx, true}; }

std::vector<Sample> samples(SampleMaker& make) {
  const auto sample = [&](const Shape& indices, std::int64_t rows, std::int64_t columns, Attrs attrs,
                          const char* label) {
    // Central differences know nothing of the padding row, which is read but gets no gradient.
    return Sample{{make.normal({rows, columns}), make.index(indices, rows)}, attrs, label, !attrs.padded};
  };
  // Long runs of the same row are summed in pieces on CUDA; the values are small, so that 16-bit sums stay
  // comparable.
  Tensor many = make.uniform({3, 8}, -0.01, 0.01);
  return {sample({2, 3}, 7, 5, {}, "a batch"),
          sample({64}, 5, 24, {}, "rows that repeat"),
          sample({3}, 40, 128, {}, "a table larger than the batch"),
          sample({4, 5}, 6, 3, padding(2), "padding"),
          sample({4, 5}, 6, 8, padding(-1), "padding from the end"),
          sample({}, 4, 6, {}, "one index"),
          sample({2, 2, 2}, 3, 1, {}, "one column"),
          sample({5}, 1, 4, {}, "one row"),
          sample({9}, 4, 1030, {}, "wide rows"),
          {{many, make.index({300}, 2)}, Attrs{}, "long runs"},
          {{make.normal({6, 4}), make.index({3, 4}, 6).to(i32)}, Attrs{}, "i32"},
          sample({0, 3}, 4, 5, {}, "no indices"),
          sample({3}, 4, 0, {}, "no columns"),
          {{make.normal({0, 4}), make.index({0}, 1)}, Attrs{}, "no rows"}};
}

std::vector<ErrorSample> error_samples(SampleMaker& make) {
  Tensor high = make.index({2, 3}, 5).clone(), low = make.index({4}, 5).clone();
  high.data<std::int64_t>()[4] = 5;
  low.data<std::int64_t>()[1] = -1;
  return {{{make.normal({5, 3}), high}, Attrs{}, "token 5 is out of range for a table of 5 rows"},
          {{make.normal({5, 3}), low}, Attrs{}, "token -1 is out of range for a table of 5 rows"},
          {{make.normal({5}), make.index({2}, 5)}, Attrs{}, "it must be [rows, columns]"},
          {{make.normal({5, 3}), make.normal({2})}, Attrs{}, "indices must be i64 or i32"},
          {{make.normal({5, 3}), make.index({2}, 5)}, padding(5), "it must lie in [-5, 5)"},
          {{make.index({5, 3}, 5), make.index({2}, 5)}, Attrs{}, "supported dtypes are f32"},
          {{make.normal({5, 3}), make.index({1, 1, 1, 1, 1, 1, 1, 1}, 5)}, Attrs{}, "one axis more"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(embedding, {"embedding", samples, error_samples})
