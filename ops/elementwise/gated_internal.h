#pragma once

namespace ct::gated {

enum class Gate { silu, gelu, gelu_tanh };

}  // namespace ct::gated
