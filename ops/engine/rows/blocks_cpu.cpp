#include <cotangent/ops/engine/rows/blocks_cpu.h>

namespace ct::rows {

CT_BLOCK_TEMPLATES();

}  // namespace ct::rows
