#include <cotangent/ops/collective/collective_internal.h>
#include <cotangent/ops/testing/references.h>
#include <cotangent/ops/testing/samples.h>

// A rank alone, to which every collective gives its own tensor. collective_test.cpp has several.

namespace ct {
namespace {

using dist::ReduceOp;
using Attrs = dist::detail::CollectiveAttrs;

std::vector<Tensor> reference(std::span<const Tensor> in, AttrsView) {
  const Shape shape = in[0].shape();
  return {testing::by_index(shape, [&](const Dims& index) { return testing::at(in[0], index); })};
}

std::vector<Sample> samples(SampleMaker& make) {
  std::vector<Sample> list;
  for (const Shape& shape : {Shape{1}, Shape{7}, Shape{0, 3}, Shape{5, 3}, Shape{2, 1, 9}, Shape{17, 35}})
    list.push_back({{make.normal(shape)}, Attrs{}, ""});
  return list;
}

std::vector<ErrorSample> group_errors(SampleMaker& make) {
  return {{{make.normal({2})}, Attrs{.group = ~std::uint64_t{0}}, "a group that has ended"}};
}
std::vector<ErrorSample> reduce_errors(SampleMaker& make) {
  std::vector<ErrorSample> list = group_errors(make);
  list.push_back({{make.index({2}, 5)}, Attrs{.op = ReduceOp::mean}, "has no mean"});
  return list;
}
std::vector<ErrorSample> scatter_errors(SampleMaker& make) {
  std::vector<ErrorSample> list = reduce_errors(make);
  list.push_back({{make.normal({})}, Attrs{}, "must be a multiple of the 1 ranks"});
  return list;
}
std::vector<ErrorSample> broadcast_errors(SampleMaker& make) {
  std::vector<ErrorSample> list = group_errors(make);
  list.push_back({{make.normal({2})}, Attrs{.root = 1}, "must lie in [0, 1)"});
  return list;
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(collective, {"all_reduce", samples, reduce_errors, reference},
            {"broadcast", samples, broadcast_errors, reference},
            {"all_gather", samples, group_errors, reference},
            {"reduce_scatter", samples, scatter_errors, reference})
