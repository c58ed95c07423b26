#include <cotangent/ops/elementwise/dropout_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using elementwise::dropout_impl::Attrs;

std::vector<Sample> samples(SampleMaker& make) {
  return {
      {{make.normal({7, 9})}, Attrs{0.5, {1, 0}}, "half"},
      {{make.normal({1030})}, Attrs{0.1, {12345678901234567u, 3}}, "a tenth, of more than one block"},
      {{make.normal({3, 5})}, Attrs{0.0, {1, 1}}, "nothing dropped"},
      {{make.normal({3, 5})}, Attrs{1.0, {1, 2}}, "everything dropped"},
      {{make.normal({})}, Attrs{0.3, {2, 0}}, "scalar"},
      {{make.normal({0, 3})}, Attrs{0.3, {2, 0}}, "empty"},
  };
}

std::vector<ErrorSample> error_samples(SampleMaker& make) {
  return {{{make.normal({3})}, Attrs{-0.1, {}}, "must lie in [0, 1]"},
          {{make.normal({3})}, Attrs{1.5, {}}, "must lie in [0, 1]"},
          {{make.index({3}, 2)}, Attrs{0.5, {}}, "supported dtypes are f32"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(dropout, {"dropout", samples, error_samples})
