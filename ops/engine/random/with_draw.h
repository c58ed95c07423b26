#pragma once

#include <cotangent/core/base/rng.h>

namespace ct {

/// call(draw) with one draw of the generator. If it throws the draw is given back, as a failed call changes
/// nothing; unless another thread has drawn since: what others hold must not be drawn again.
template <class Call>
auto with_draw(Generator& generator, Call&& call) {
  const GeneratorState draw = generator.reserve();
  try {
    return call(draw);
  } catch (...) {
    generator.give_back(draw);
    throw;
  }
}

}  // namespace ct
