#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

std::vector<Sample> samples(SampleMaker& make) {
  // Values below 1 keep the products of u8 matrices in its range.
  const auto sample = [&](const Shape& a, const Shape& b, const char* label) {
    return Sample{{make.uniform(a, -1, 1), make.uniform(b, -1, 1)}, {}, label};
  };
  return {sample({5}, {5}, "dot"),
          sample({3, 4}, {4, 5}, "matrices"),
          sample({1, 1}, {1, 1}, "1x1"),
          sample({17, 9}, {9, 33}, "odd sizes"),
          sample({4}, {4, 3}, "row times matrix"),
          sample({3, 4}, {4}, "matrix times column"),
          sample({4}, {2, 4, 3}, "row times stack"),
          sample({2, 3, 4}, {4}, "stack times column"),
          sample({2, 3, 4}, {4, 5}, "stack times matrix"),
          sample({3, 4}, {2, 4, 5}, "matrix times stack"),
          sample({2, 3, 4}, {2, 4, 5}, "stacks"),
          sample({2, 1, 3, 4}, {3, 4, 2}, "broadcast both ways"),
          sample({2, 3, 2, 4}, {1, 3, 4, 2}, "broadcast in front"),
          sample({1, 2, 4}, {3, 1, 4, 2}, "outer product of stacks"),
          sample({2, 3, 1}, {2, 1, 4}, "k = 1"),
          sample({3, 0}, {0, 4}, "k = 0"),
          sample({0, 3}, {3, 4}, "no rows"),
          sample({0, 3, 4}, {4, 5}, "empty stack"),
          sample({0, 3, 4}, {1, 4, 5}, "stack broadcast to nothing")};
}

std::vector<ErrorSample> errors(SampleMaker& make) {
  return {{{make.normal({64, 784}), make.normal({783, 10})},
           {},
           "inner dimensions differ: a is f64[64, 784], b is f64[783, 10]"},
          {{make.normal({3}), make.normal({4})}, {}, "a.size(-1) must equal b.size(-1)"},
          {{make.normal({}), make.normal({3})}, {}, "both need at least one axis"},
          {{make.normal({2, 3, 4}), make.normal({3, 4, 5})}, {}, "[2]"},
          {{make.mask({3, 3}), make.mask({3, 3})}, {}, "bool"}};
}

}  // namespace
}  // namespace ct

CT_ORACLE(matmul)
CT_OP_TESTS(matmul, {"matmul", samples, errors, nullptr, &oracle_kernels::matmul})
