# Headers that programs may include at a path where they no longer are: "old new". Each old path is a header that includes the
# new one and says so, installed and on the include path of projects that take the sources in. This project's own files do not
# see them. A row stands through the next minor version; these until 0.3.
set(COTANGENT_MOVED
  "autograd/gradcheck.h ops/testing/gradcheck.h"
  "core/testing.h ops/testing/allocators.h"
  "nn/io/huggingface.h nn/models/huggingface.h"
  "nn/norm.h nn/normalization.h"
  "nn/plugin/cuda_text.h core/jit/cuda_text.h"
  "ops/bce_with_logits/bce_with_logits.h ops/loss/element/bce_with_logits.h"
  "ops/binary/binary.h ops/elementwise/binary.h"
  "ops/concat/concat.h ops/copy/concat.h"
  "ops/conformance.h ops/testing/conformance.h"
  "ops/creation.h ops/creation/creation.h"
  "ops/cross_entropy/cross_entropy.h ops/loss/classes/cross_entropy.h"
  "ops/dropout/dropout.h ops/elementwise/dropout.h"
  "ops/elementwise/rotary_embedding.h ops/rotary/rotary_embedding.h"
  "ops/embedding/embedding.h ops/indexing/embedding.h"
  "ops/gated/gated.h ops/elementwise/gated.h"
  "ops/layer_norm/layer_norm.h ops/normalization/layer_norm.h"
  "ops/linear_cross_entropy/linear_cross_entropy.h ops/loss/head/linear_cross_entropy.h"
  "ops/loss/bce_with_logits.h ops/loss/element/bce_with_logits.h"
  "ops/loss/cross_entropy.h ops/loss/classes/cross_entropy.h"
  "ops/loss/linear_cross_entropy.h ops/loss/head/linear_cross_entropy.h"
  "ops/loss/mse_loss.h ops/loss/element/mse_loss.h"
  "ops/loss/nll_loss.h ops/loss/classes/nll_loss.h"
  "ops/masked_softmax/masked_softmax.h ops/softmax/masked_softmax.h"
  "ops/mse_loss/mse_loss.h ops/loss/element/mse_loss.h"
  "ops/multinomial/multinomial.h ops/sampling/multinomial.h"
  "ops/nll_loss/nll_loss.h ops/loss/classes/nll_loss.h"
  "ops/norm/layer_norm.h ops/normalization/layer_norm.h"
  "ops/norm/rms_norm.h ops/normalization/rms_norm.h"
  "ops/norm/norm_use.h ops/normalization/norm_use.h"
  "ops/norm_use.h ops/normalization/norm_use.h"
  "ops/nvtx.h core/op/nvtx.h"
  "ops/pooling/pooling.h ops/convolution/pooling.h"
  "ops/reduction.h ops/loss/reduction.h"
  "ops/rms_norm/rms_norm.h ops/normalization/rms_norm.h"
  "ops/rotary_embedding/rotary_embedding.h ops/rotary/rotary_embedding.h"
  "ops/topk/topk.h ops/sorting/topk.h"
  "ops/unary/unary.h ops/elementwise/unary.h"
  "ops/where/where.h ops/elementwise/where.h")

# Headers of core have rooms: core/NAME.h is core/ROOM/NAME.h.
file(GLOB _headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" core/*/*.h)
list(FILTER _headers EXCLUDE REGEX "${COTANGENT_PRIVATE_HEADER_REGEX}|^core/(cuda|jit|simd)/")
foreach(_header IN LISTS _headers)
  get_filename_component(_name "${_header}" NAME)
  list(APPEND COTANGENT_MOVED "core/${_name} ${_header}")
endforeach()

foreach(_row IN LISTS COTANGENT_MOVED)
  string(REGEX MATCH "^([^ ]+) ([^ ]+)$" _row "${_row}")
  if(EXISTS "${PROJECT_SOURCE_DIR}/${CMAKE_MATCH_1}")
    message(FATAL_ERROR "cmake/CotangentMoved.cmake: ${CMAKE_MATCH_1} is said to have moved, and is there")
  endif()
  cotangent_generate("${PROJECT_BINARY_DIR}/moved/cotangent/${CMAKE_MATCH_1}"
"// Stands until 0.3.
#pragma once
#pragma message(\"<cotangent/${CMAKE_MATCH_1}> is <cotangent/${CMAKE_MATCH_2}> now\")
#include <cotangent/${CMAKE_MATCH_2}>
")
endforeach()
