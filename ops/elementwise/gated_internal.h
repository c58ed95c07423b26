#pragma once

namespace ct::elementwise::gated {

enum class Gate { silu, gelu, gelu_tanh };

}  // namespace ct::elementwise::gated
