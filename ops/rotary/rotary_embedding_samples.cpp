#include <cotangent/ops/rotary/rotary_embedding_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using rotary::Attrs;

std::vector<Sample> samples(SampleMaker& make) {
  std::vector<Sample> all;
  // Positions stay small: the angles of large ones are inexact in f32, and meant to be.
  const auto add = [&](const Shape& x, const Shape& positions, const RotaryOptions& options,
                       const char* label) {
    all.push_back({{make.normal(x), make.index(positions, 12)}, Attrs{options}, label});
  };
  for (const bool interleaved : {false, true}) {
    const RotaryOptions plain{.interleaved = interleaved};
    add({2, 3, 5, 8}, {5}, plain, "heads");
    add({2, 3, 5, 64}, {2, 5}, plain, "positions of their own");
    add({3, 6}, {3}, plain, "a matrix, odd pairs");
    add({2, 3, 2}, {2, 3}, plain, "one pair");
    add({2, 3, 4, 16}, {4}, {.interleaved = interleaved, .rotary_dim = 6}, "a part is turned");
    add({2, 2, 3, 40}, {3}, {.interleaved = interleaved, .rotary_dim = 16}, "a part of whole vectors");
    add({2, 1, 3, 2, 4}, {2}, plain, "rank 5");
    add({0, 4, 8}, {0, 4}, plain, "no batch");
    add({2, 0, 8}, {0}, plain, "no rows");
    add({2, 3, 0}, {3}, plain, "no columns");
  }
  add({2, 2, 3, 16}, {3}, {.base = 500}, "another base");
  const RotaryScaling llama{.kind = RotaryScaling::Kind::llama3, .factor = 8, .original_length = 64};
  add({1, 2, 3, 32}, {3}, {.scaling = llama}, "scaled as Llama 3.1");
  add({1, 2, 3, 8}, {3}, {.scaling = {.kind = RotaryScaling::Kind::linear, .factor = 4}}, "scaled linearly");
  all.push_back({{make.normal({2, 4}), make.index({2}, 12).to(i32)}, Attrs{}, "i32"});
  return all;
}

std::vector<ErrorSample> error_samples(SampleMaker& make) {
  const auto sample = [&](const Shape& x, const Shape& positions, const RotaryOptions& options,
                          const char* message) {
    return ErrorSample{{make.normal(x), make.index(positions, 9)}, Attrs{options}, message};
  };
  return {
      sample({4}, {4}, {}, "it must be [..., T, D]"),
      sample({2, 4, 8}, {5}, {}, "positions is i64[5], x is f64[2, 4, 8]"),
      sample({2, 4, 8}, {3, 4}, {}, "positions must be [4]"),
      sample({2, 4, 7}, {4}, {}, "rotary_dim is 7"),
      sample({2, 4, 8}, {4}, {.rotary_dim = 10}, "rotary_dim is 10"),
      sample({2, 4, 8}, {4}, {.base = 0}, "base is 0"),
      sample({2, 4, 8}, {4}, {.scaling = {.kind = RotaryScaling::Kind::linear, .factor = 0}}, "factor is 0"),
      sample({2, 4, 8}, {4},
             {.scaling = {.kind = RotaryScaling::Kind::llama3, .factor = 8, .low_frequency_factor = 4}},
             "and the second larger than the first"),
      {{make.normal({2, 4}), make.normal({2})}, Attrs{}, "positions must be i64 or i32"},
      {{make.index({2, 4}, 3), make.index({2}, 3)}, Attrs{}, "supported dtypes are f32"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(rotary_embedding, {"rotary_embedding", samples, error_samples})
