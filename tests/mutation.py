#!/usr/bin/env python3
"""Shows that the tests see wrong gradients: puts one fault after the other into the CPU's backward kernels, and into
what surrounds them (recompute, loss scaling, masters, averages), and expects the tests to turn red each time.

The sources stay as they are. The library is built once at -O1 into --build. For each fault a changed copy of one
file is compiled there and linked in front of the library, whose own version of that file the linker then leaves
out. Exit status: 0 if every fault is caught, 1 if one survives or no longer fits the source.

usage: tests/mutation.py [--only N[-M]] [--jobs N] [--build FOLDER] [--list]
    --list names the faults and builds nothing; exit status 1 there if one no longer fits the source (check.faults)
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

# (judge, file that gets the fault, file to compile or None for that file itself, what it is, old text, new text).
# The old text stands in the file exactly once. The judge is an op, whose part of the conformance suite must see the
# fault, or a test file.
UNARY, BINARY = "ops/elementwise/unary_cpu.cpp", "ops/elementwise/binary_cpu.cpp"
FOLDS, LOSS = "ops/reduce/reduce_cpu.cpp", "ops/loss/element/element_loss_cpu.h"
NORM, LAYER, RMS = "ops/normalization/normalization_cpu.h", "ops/normalization/layer_norm_cpu.cpp", "ops/normalization/rms_norm_cpu.cpp"
NORM_ROWS, PLAIN_NORM = "ops/normalization/normalization_cpu.cpp", "ops/normalization/normalization_plain.h"
GATES, GATED = "ops/elementwise/gated_formulas_internal.h", "ops/elementwise/gated_cpu.cpp"
MAP, POOL = "ops/engine/map/map_cpu.cpp", "ops/convolution/pooling_cpu.cpp"
ROTARY, TOPK = "ops/rotary/rotary_embedding_cpu.cpp", "ops/sorting/topk_cpu.cpp"
ATTENTION = "ops/attention/attention_cpu_backward.cpp"
LCE, CHUNKS = "ops/loss/head/linear_cross_entropy_cpu.cpp", "ops/loss/head/linear_cross_entropy_chunks.cpp"
CROSS, CROSS_TEST = "ops/loss/classes/cross_entropy_cpu.cpp", "ops/loss/classes/cross_entropy_test.cpp"
RECOMPUTE, RECOMPUTE_TEST = "autograd/recompute.cpp", "autograd/recompute_test.cpp"
UPDATE_TEST, UPDATE, UPDATE_RULES = "ops/update/update_test.cpp", "ops/update/update_cpu.cpp", "ops/update/rules_internal.h"
SCALER, SCALER_TEST = "nn/optim/grad_scaler.cpp", "nn/optim/grad_scaler_test.cpp"
OPTIMIZER, MASTER_TEST = "nn/optim/optimizer.cpp", "nn/optim/master_test.cpp"
EMA, EMA_TEST = "nn/optim/ema.cpp", "nn/optim/ema_test.cpp"
CELLS, STEPS, STEPS_CPU = "ops/recurrence/cells_internal.h", "ops/recurrence/steps_internal.h", "ops/recurrence/recurrence_cpu.cpp"
PLACES, REDUCED = "ops/engine/scatter/places_cpu.h", "ops/indexing/scatter_reduce"
RECURRENT, RECURRENT_TEST = "nn/recurrent.cpp", "nn/recurrent_test.cpp"
CSV, IMAGE, FOREIGN = "nn/data/csv.cpp", "nn/data/image.cpp", "nn/io/safetensors_header.cpp"
EXECUTE, OBSERVER, CPU_ALLOCATOR = "core/op/execute.cpp", "core/op/op_observer.cpp", "core/memory/cpu_allocator.cpp"
OBSERVER_TEST, LAYOUTS_TEST, RECORDING_TEST = "ops/observer_test.cpp", "tests/layouts_test.cpp", "tests/recording_test.cpp"
MEMORY_POOL_TEST = "core/memory/memory_pool_test.cpp"
PROFILE_TEST, CALL_COSTS, MEMORY_WATCH = "nn/profile/profile_test.cpp", "nn/profile/call_costs.cpp", "nn/profile/memory_watch.cpp"
PROGRAM, REPLAY, RECORDER = (f"nn/capture/{name}.cpp" for name in ("program", "replay", "recorder"))
CAPTURE_TEST, REFUSALS_TEST = "nn/capture/capture_test.cpp", "nn/capture/refusals_test.cpp"
BETWEEN_TEST, STEP_MEMORY_TEST, FOOTGUNS_TEST = (f"nn/capture/{name}_test.cpp" for name in ("between_steps", "memory", "footguns"))
FUSE_TEST, CHAIN = "ops/fusion/fuse_test.cpp", "ops/engine/map/chain.cpp"
MERGING_TEST, MERGING = "nn/capture/merging_test.cpp", "nn/capture/merging.cpp"
FUSION_TEST, ASSEMBLY = "nn/capture/fusion_test.cpp", "nn/capture/assembly.cpp"
LOSSES_TEST = "nn/capture/fusion_losses_test.cpp"
ROWS_TEST, ROWS = "nn/capture/fusion_rows_test.cpp", "nn/capture/fusion_rows.cpp"
FAULTS = [
    ("tanh", "ops/elementwise/unary_table.inc", UNARY, "y not squared", "g * (1 - y * y))", "g * (1 - y))"),
    ("softplus", "ops/elementwise/unary_table.inc", UNARY, "beta left out of the sigmoid",
     "g, g * sigmoid(p * x))", "g, g * sigmoid(x))"),
    ("mish", "ops/engine/map/formulas.h", UNARY, "the sigmoid left out of the slope", "(rest * (1 + gate)) * sigmoid(x)", "(rest * (1 + gate))"),
    ("log10", "ops/elementwise/unary_table.inc", UNARY, "another base's gradient", "g / (kLn10 * x)", "g / (kLn2 * x)"),
    ("mul", "ops/elementwise/binary_table.inc", BINARY, "sign of db", "g * b, g * a)", "g * b, -g * a)"),
    ("div", "ops/elementwise/binary_table.inc", BINARY, "one division by b missing in db",
     "-g * ((a / b) / b))", "-g * (a / b))"),
    ("pow", "ops/elementwise/binary_table.inc", BINARY, "base and exponent swapped in db",
     "exponent_slope(g, a, b))", "exponent_slope(g, b, a))"),
    ("remainder", "ops/elementwise/binary_table.inc", BINARY, "another quotient's gradient", "-g * floor_divide(a, b))", "-g * trunc(a / b))"),
    ("lerp", "ops/elementwise/binary_table.inc", BINARY, "both operands get the share of b", "g * (1 - c), g * c,", "g * c, g * c,"),
    ("maximum", "ops/elementwise/binary_table.inc", BINARY, "the smaller operand gets the gradient",
     "maximum(a, b), larger_share(g, a, b), larger_share(g, b, a))",
     "maximum(a, b), larger_share(g, b, a), larger_share(g, a, b))"),
    ("where", "ops/elementwise/where_cpu.cpp", None, "both branches get the first one's gradient",
     "gradient(b, 2, 1);", "gradient(b, 2, 0);"),
    ("add", "ops/engine/fold/sum_to.cpp", None, "a broadcast operand's gradient is averaged, not summed",
     ".sum(grad, mask, out, 1, accumulate)",
     ".sum(grad, mask, out, double(grad.numel()) / double(out.numel()), accumulate)"),
    ("mean", "ops/reduce/backward.cpp", None, "not divided by the count",
     "kind == Kind::sum || outputs == 0 ? 1 : static_cast<double>(numel(x.shape) / outputs);", "1;"),
    ("var", "ops/reduce/backward.cpp", None, "the correction is ignored",
     "? count - attrs.number : 0;", "? count : 0;"),
    ("max", FOLDS, None, "the position's stride is ignored",
     "winner[k] == number + i * number_step ?", "winner[k] == number + i ?"),
    ("amax", "ops/engine/fold/gradients.h", FOLDS, "ties do not share",
     "return x == y || (x != x && y != y) ? g / aux : C(0);", "return x == y || (x != x && y != y) ? g : C(0);"),
    ("norm", "ops/engine/fold/gradients.h", FOLDS, "order 2: not divided by the norm",
     "C(0) : g * (x / y);", "C(0) : g * x;"),
    ("logsumexp", "ops/engine/fold/gradients.h", FOLDS, "the result is not subtracted",
     "exp((x - (y == -INFINITY ? C(0) : y)) - aux)", "exp(x - aux)"),
    ("softmax", "ops/softmax/softmax_cpu.cpp", None, "sum outside of the product", "y * (g - sum)", "y * g - sum"),
    ("log_softmax", "ops/softmax/softmax_cpu.cpp", None, "sum of the cotangent left out",
     "g - simd::exp_nonpositive(y) * sum", "g - simd::exp_nonpositive(y)"),
    ("masked_softmax", "ops/softmax/masked_softmax_cpu.cpp", None, "the scale is left out of dx",
     "b.grad_in(0), b.attrs<Attrs>().scale);", "b.grad_in(0), 1);"),
    ("dropout", "ops/elementwise/dropout_cpu.cpp", None, "the cotangent is not dropped",
     "drop(b.grad(), b.grad_in(0), b.attrs<Attrs>());", "b.set_grad_in(0, b.grad());"),
    ("ops/elementwise/dropout_test.cpp", MAP, None, "every block draws the words of the first", "static_cast<std::uint64_t>(i), tile.n, words",
     "std::uint64_t{0}, tile.n, words"),
    ("dropout", "ops/elementwise/dropout_plain.h", "ops/elementwise/dropout_plain.cpp",
     "the cotangent is not scaled, plain", "dropped ? 0 : g / (1 - p);", "dropped ? 0 : g;"),
    ("scaled_dot_product_attention", "ops/attention/attention_cpu_backward.cpp", None,
     "the softmax's sum is not subtracted", "* kept - delta) * factor;", "* kept) * factor;"),
    ("scaled_dot_product_attention", "ops/attention/attention_cpu_backward.cpp", None,
     "dropout is left out of dP", "(V::load(ds + at) * kept - delta)", "(V::load(ds + at) - delta)"),
    ("scaled_dot_product_attention", "ops/attention/attention_cpu_backward.cpp", None,
     "the diagonal is left out of dq", "diagonal_ + row + 1 - j0_", "diagonal_ + row - j0_"),
    ("matmul", "ops/engine/gemm/product.cpp", None, "b not transposed in da",
     "Stack(b.in(1), in_b).t(), in_a", "Stack(b.in(1), in_b), in_a"),
    ("matmul", "ops/engine/gemm/product.cpp", None, "a stack's second gradient replaces the first",
     "return multiply(x, y, Stack(b.grad_in(i), missing), b.accumulate(i), backend);",
     "return multiply(x, y, Stack(b.grad_in(i), missing), false, backend);"),
    ("ops/normalization/batch_norm_test.cpp", "ops/normalization/batch_norm.cpp", None,
     "the variance that is remembered is the biased one", "options.momentum * unbiased", "options.momentum"),
    ("conv2d", "ops/convolution/convolution_cpu.cpp", None, "each tile's share of dw replaces the one before",
     "x.data, u == start ? 0 : 1, dw)", "x.data, 0, dw)"),
    ("conv2d", "ops/convolution/convolution_cpu.cpp", None, "all groups add to the first one's image in dx",
     "const int64_t count = std::min(some, channels - c0), channel = group * channels + c0;",
     "const int64_t count = std::min(some, channels - c0), channel = c0;"),
    ("conv_transpose2d", "ops/convolution/convolution.cpp", None, "the sum for the bias is left out of the second pass",
     "sum_to_into(db, b.grad(), b.accumulate(2))", "sum_to_into(db, b.grad(), false)"),
    ("max_pool2d", POOL, None, "an element gets the gradient of the last window that chose it alone",
     "sum[index[window]] += static_cast<C>(g[window])", "sum[index[window]] = static_cast<C>(g[window])"),
    ("max_pool2d", POOL, None, "of equal elements the last wins", "(values > best)", "(values >= best)"),
    ("avg_pool2d", POOL, None, "all windows of a row give as large shares as the first",
     "/ static_cast<C>(w.divisor(p, q));\n        each", "/ static_cast<C>(w.divisor(p, 0));\n        each"),
    ("upsample2d", "ops/convolution/upsample_internal.h", "ops/convolution/upsample_cpu.cpp",
     "dx of a linear one leaves out those that look at the element before",
     "return first(linear ? a - 1 : a);", "return first(a);"),
    ("upsample2d", "ops/convolution/upsample_internal.h", "ops/convolution/upsample_cpu.cpp",
     "dx of a linear one has the share of the other element",
     "s.low == a ? 1 - s.share : s.low + 1 == a ? s.share : 0", "s.low == a ? s.share : s.low + 1 == a ? 1 - s.share : 0"),
    ("batch_norm", "ops/normalization/batch_norm_cpu.cpp", None, "dx leaves out that the mean moves",
     "c.training ? db / count : 0", "C(0)"),
    ("batch_norm", "ops/normalization/batch_norm_cpu.cpp", None, "outside of training the variance moves in dx",
     "c.training ? r * dw / count : 0", "r * dw / count"),
    ("batch_norm", "ops/normalization/batch_norm_plain.h", "ops/normalization/batch_norm_plain.cpp",
     "dx has no weight, plain", "w * r * (run(c, g, i)", "r * (run(c, g, i)"),
    ("ops/normalization/batch_norm_test.cpp", "ops/normalization/batch_norm.cpp", None,
     "instance_norm forgets the variance before", "ct::mean(var(values, {2}, 1), {0}), options.momentum, options.momentum",
     "ct::mean(var(values, {2}, 1), {0}), 1, options.momentum"),
    ("linear", "ops/linear/linear.cpp", None, "the bias gets its gradient from the first row only",
     "sum_to_into(b.grad_in(2), b.grad(), b.accumulate(2))",
     "sum_to_into(b.grad_in(2), b.grad().dim() > 1 ? b.grad().narrow(0, 0, 1) : b.grad(), b.accumulate(2))"),
    ("linear_relu", "ops/linear/linear_relu_internal.h", "ops/linear/linear_relu_cpu.cpp", "the gradient passes where y is 0",
     "return where(y <= 0, 0, g)", "return where(y < 0, 0, g)"),
    ("mse_loss", "ops/loss/element/mse_loss_internal.h", "ops/loss/element/mse_loss_cpu.cpp", "sign of dt", "results(dx, -dx)",
     "results(dx, dx)"),
    ("mse_loss", LOSS, "ops/loss/element/mse_loss_cpu.cpp", "a mean's gradient is not divided by the count",
     "{share_of(reduction, numel(shape)), 0}", "{1, 0}"),
    ("bce_with_logits", "ops/loss/element/bce_with_logits_internal.h", "ops/loss/element/bce_with_logits_cpu.cpp",
     "pos_weight left out of dx", "(no - pos_weight * t * r)", "(no - t * r)"),
    ("bce_with_logits", MAP, None, "an optional input that is not given is 0", "static bool one = true;",
     "static bool one = false;"),
    ("mse_loss", "ops/loss/element/mse_loss_plain.h", "ops/loss/element/mse_loss_plain.cpp", "the 2 is left out, plain",
     "return 2 * g * (x - t);", "return g * (x - t);"),
    ("bce_with_logits", "ops/loss/element/bce_with_logits_plain.h", "ops/loss/element/bce_with_logits_plain.cpp",
     "pos_weight left out of dx, plain", "- p * t * s.of_minus_x", "- t * s.of_minus_x"),
    ("nll_loss", "ops/loss/classes/nll_loss_plain.h", "ops/loss/classes/cross_entropy_plain.cpp", "class weight left out, plain",
     "return -g * w_t;", "return -g;"),
    ("cross_entropy", "ops/loss/classes/cross_entropy_plain.h", "ops/loss/classes/cross_entropy_plain.cpp",
     "the sum of the factors is left out, plain", "p * f.sum() - f", "p - f"),
    ("cross_entropy_soft", "ops/loss/classes/cross_entropy_plain.h", "ops/loss/classes/cross_entropy_plain.cpp",
     "smoothing left out of dt, plain", "g * (1 - s) * w * L;", "g * w * L;"),
    ("nll_loss", "ops/loss/classes/cross_entropy_cpu.cpp", None, "class weight left out",
     "static_cast<C>(-w * scale)", "static_cast<C>(-scale)"),
    ("cross_entropy", "ops/loss/classes/cross_entropy_cpu.cpp", None, "class weight left out at the label",
     "row[t * step] -= scale * hit;", "row[t * step] -= scale;"),
    ("cross_entropy_soft", "ops/loss/classes/cross_entropy_cpu.cpp", None, "smoothing left out of dt",
     "-(scale * P(C(1) - smoothing) * w * (v - rests))", "-(scale * w * (v - rests))"),
    ("ops/loss/classes/cross_entropy_test.cpp", "ops/loss/classes/class_loss_internal.h", "ops/loss/classes/cross_entropy_cpu.cpp",
     "what rounding logsumexp loses is forgotten", "rest = (a - (sum - b_part)) + (b - b_part);", "rest = 0 * sum;"),
    ("copy", "ops/copy/copy.cpp", None, "the cotangent is not converted back",
     "copy_kernel(b.grad_in(0), b.grad());", "b.set_grad_in(0, b.grad());"),
    ("concat", "ops/copy/concat.cpp", None, "every input gets the first part", "offset += length;", ""),
    ("permute", "ops/view/view_defs.cpp", None, "permuted once more instead of back",
     "b.grad().permute(inverse)", "b.grad().permute(axes)"),
    ("slice", "ops/view/view_defs.cpp", None, "put at the start instead of at its place",
     "at.strides, at.offset, whole.dtype()", "at.strides, 0, whole.dtype()"),
    # --- plain kernels: in f64 they face central differences, and the fast ones face them ---
    ("layer_norm", PLAIN_NORM, "ops/normalization/layer_norm_plain.cpp", "the average is not subtracted",
     "u - u.mean() - xhat", "u - xhat"),
    ("rms_norm", PLAIN_NORM, "ops/normalization/rms_norm_plain.cpp", "the slope along the row is a sum, not a mean",
     "(u - xhat * (u * xhat).mean())", "(u - xhat * (u * xhat).sum())"),
    ("masked_softmax", "ops/softmax/masked_softmax_plain.h", "ops/softmax/masked_softmax_plain.cpp",
     "the scale is left out of dx", "dx = scale * ds;", "dx = ds;"),
    ("topk", "ops/sorting/topk_plain.h", "ops/sorting/topk_plain.cpp", "dx is not cleared", "dx = 0;", ""),
    ("embedding", "ops/indexing/embedding_plain.h", "ops/indexing/embedding_plain.cpp",
     "the last place that reads a row is all that counts", "dw.row(i[p]) += g.row(p)", "dw.row(i[p]) = g.row(p)"),
    ("multinomial", "ops/sampling/multinomial_plain.h", "ops/sampling/multinomial_plain.cpp",
     "what was drawn can be drawn again", "if (!replacement) sum", "if (false) sum"),
    ("sample_logits", "ops/sampling/sampling_plain.h", "ops/sampling/sampling_plain.cpp",
     "top_k keeps one more", "attrs.top_k - 1", "attrs.top_k"),
    # --- a transformer's rooms ---
    ("ops/indexing/embedding_test.cpp", PLACES, "ops/engine/scatter/scatter_cpu.cpp", "the padding row gets a gradient",
     "good && i != skip ? base", "good ? base"),
    ("embedding", "ops/engine/scatter/scatter_cpu.cpp", None, "a row's first reader is left out",
     "for (std::int64_t r = 0; r < readers; ++r)", "for (std::int64_t r = 1; r < readers; ++r)"),
    ("embedding", "ops/engine/scatter/scatter_cpu.cpp", None, "a second gradient replaces the first",
     "if (accumulate) add_run(out, n, sum);", ""),
    ("gather", PLACES, "ops/engine/scatter/scatter_cpu.cpp", "the step of an axis is not taken back at its end",
     "s.index_step[k - 1] - at[k] * s.index_step[k];", "s.index_step[k - 1];"),
    ("scatter", "ops/indexing/indexing.cpp", None, "what is overwritten gets a gradient too",
     "where(last_writers(kind, b), take_like(kind, b.grad(), axis, b.in(1)), 0)",
     "take_like(kind, b.grad(), axis, b.in(1))"),
    ("scatter_reduce_amax", REDUCED + "_cpu.cpp", None, "x's own element is no tie",
     "aux[i] = self ? equal(x, i, i) : C(0);", "aux[i] = C(0);"),
    ("scatter_reduce_prod", REDUCED + "_plain.h", REDUCED + "_plain.cpp", "the elements behind are left out",
     "dv[i] *= behind, ", ""),
    ("scatter_reduce_mean", REDUCED + ".cpp", None, "the rule counts x's own element always",
     "attrs.include_self ? own.to(g.dtype()) : zeros_like(g.detach())", "own.to(g.dtype())"),
    ("flat_index", "ops/indexing/index_internal.h", "ops/indexing/index_cpu.cpp", "negative indices stay so",
     "(index < 0 ? index + size[k] : index)", "index"),
    ("ops/indexing/index_test.cpp", "ops/indexing/index.cpp", None, "axes that are apart count as neighbours",
     "axes.back() - axes.front() + 1 == static_cast<int>(axes.size())", "true"),
    ("pad", "ops/indexing/rearrange.cpp", None, "the gradient is that of the beginning",
     "y.narrow(i, a.before[i], y.shape()[i]", "y.narrow(i, 0, y.shape()[i]"),
    ("unfold", "ops/view/view_defs.cpp", None, "the rule takes windows for neighbours",
     "(arange(g.shape()[axis], integers) * a.step)", "(arange(g.shape()[axis], integers) * a.size)"),
    ("nonzero", "ops/indexing/masks_cpu.cpp", None, "chunks write from the beginning",
     "out + starts[static_cast<std::size_t>(chunk)] * rank;", "out;"),
    ("ops/indexing/indexing_test.cpp", "ops/indexing/indexing.cpp", None, "a source that is changed is read",
     "index = apart(f.in(1), out), source = apart(f.in(2), out);", "index = f.in(1), source = f.in(2);"),
    ("layer_norm", NORM, LAYER, "the average is not subtracted", "V(-average)", "V(C(0))"),
    ("layer_norm", NORM, LAYER, "a row's last columns are left out of the sums",
     "if (j < n) step(j, V::first(n - j));", ""),
    ("ops/normalization/both_norms_test.cpp", NORM_ROWS, None, "dweight from the first chunk of rows only",
     "chunk < chunks; ++chunk", "chunk < 1; ++chunk"),
    ("layer_norm", NORM_ROWS, None, "a bias's second gradient replaces the first", "n, call.accumulate_bias,", "n, false,"),
    ("add_layer_norm", NORM, LAYER, "the sum's own gradient is left out", "if (more) rest = V::load(more + j, first...);", ""),
    ("ops/normalization/normalization_test.cpp", NORM, LAYER, "a 16-bit residual gets no gradient",
     "if (low_dx) V::store_two", "if (false) V::store_two"),
    ("ops/normalization/normalization_test.cpp", NORM, RMS, "a 16-bit residual is not added",
     "if (low_residual) add_row(from, low_residual + row * n,", "if (low_residual) add_row(from, from,"),
    ("rms_norm", NORM, RMS, "the slope along the row is not subtracted", "fma(hat, V(-slope), scaled)", "scaled"),
    ("rms_norm", NORM, RMS, "the weight is left out of dx", "V::load(w + j, first...), V(-average)", "V(C(1)), V(-average)"),
    ("add_rms_norm", NORM, RMS, "dweight's rows are not normalized",
     "fma(gs, hat, V::load(dw", "fma(gs, V(C(1)), V::load(dw"),
    ("swiglu", GATES, GATED, "the slope is the sigmoid alone", "{x * s, s * (1 + x * (1 - s))}", "{x * s, s}"),
    ("swiglu", GATES, GATED, "up gets the slope, not the value", "g * of.value)", "g * of.slope)"),
    ("geglu", GATES, GATED, "the density is left out", "cdf + x * (kOneOverSqrtTwoPi * e)}", "cdf}"),
    ("geglu_tanh", "ops/engine/map/formulas.h", GATED, "the cubic's slope lacks its 3",
     "(t + 3 * 0.044715", "(t + 0.044715"),
    ("swiglu", "ops/elementwise/gated_plain.h", "ops/elementwise/gated_plain.cpp", "the slope is the sigmoid alone, plain",
     "s + a * s * (1 - s)", "s"),
    ("geglu", "ops/elementwise/gated_plain.h", "ops/elementwise/gated_plain.cpp", "the density is left out, plain",
     "cdf + a * density", "cdf"),
    ("rotary_embedding", "ops/rotary/rotary_embedding_plain.h",
     "ops/rotary/rotary_embedding_plain.cpp", "turned on instead of back, plain",
     "rotary_embedding(g, {phi.cos, -phi.sin},", "rotary_embedding(g, phi,"),
    ("rotary_embedding", ROTARY, None, "turned on instead of back", "if (call.back)", "if (false)"),
    ("rotary_embedding", ROTARY, None, "what is not turned gets no gradient",
     "std::copy(from + turned, from + call.columns, to + turned);",
     "call.back ? std::fill(to + turned, to + call.columns, T(C(0)))"
     " : void(std::copy(from + turned, from + call.columns, to + turned));"),
    ("rotary_embedding", ROTARY, None, "going back, all batches have the first one's positions",
     "(b * call.position_stride + t)", "((call.back ? 0 : b) * call.position_stride + t)"),
    ("scaled_dot_product_attention", ATTENTION, None, "the scale is left out of dq and dk",
     "block.meet(j0, n, ks, vs, gradients, static_cast<C>(f.attrs.scale));",
     "block.meet(j0, n, ks, vs, gradients, C(1));"),
    ("scaled_dot_product_attention", ATTENTION, None, "shared keys hear of the first query head only",
     "for (std::int64_t h = kv * e.group(); h < (kv + 1) * e.group(); ++h)\n    for",
     "for (std::int64_t h = kv * e.group(); h < kv * e.group() + 1; ++h)\n    for"),
    ("ops/attention/attention_test.cpp", ATTENTION, None, "dq from the first share of the keys only",
     "for (std::int64_t s = 1; s < shares; ++s)", "for (std::int64_t s = shares; s < shares; ++s)"),
    ("scaled_dot_product_attention", ATTENTION, None, "a mask hears of the first batch only",
     "b < (every_b ? e.batch : mb + 1)", "b < (every_b ? 1 : mb + 1)"),
    ("masked_softmax", "ops/softmax/masked_softmax_cpu.cpp", None, "the mask's gradient is scaled",
     "b.grad(), b.out(), scores, 1);", "b.grad(), b.out(), scores, b.attrs<Attrs>().scale);"),
    ("linear_cross_entropy", LCE, None, "smoothing is left out at the label",
     "std::exp(hit - shift) - share - (C(1) - s)", "std::exp(hit - shift) - (C(1) - s)"),
    ("linear_cross_entropy", LCE, None, "rows that do not count keep their logits as gradient",
     "if (step != Step::losses) std::fill_n(x, n, T(C(0)));", ""),
    ("linear_cross_entropy", LCE, None, "not multiplied by the cotangent",
     "*static_cast<const float*>(cotangent) / by;", "1 / by;"),
    ("linear_cross_entropy", CHUNKS, None, "the last chunk's gradient of the weight replaces the others'",
     "stack(x), sum_, started_, device_);", "stack(x), sum_, false, device_);"),
    ("linear_cross_entropy", "ops/loss/head/linear_cross_entropy_plain.h", "ops/loss/head/linear_cross_entropy_plain.cpp",
     "smoothing is left out, plain", "Ones(z.size()), t, s), dz);", "Ones(z.size()), t, 0), dz);"),
    ("linear_cross_entropy_recompute", LCE, None, "a mean's gradient is not divided by the count",
     " / *static_cast<const C*>(k.divisor);", ";"),
    ("linear_cross_entropy_recompute", CHUNKS, None, "all chunks have the first one's cotangents",
     "if (chunk.each) chunk.cotangent = advance(const_cast<void*>(chunk.cotangent), first, wide);", ""),
    ("linear_cross_entropy_recompute", CHUNKS, None, "a second gradient of x replaces the first",
     "rows_of(b.grad_in(0), first, x.size(0)), b.accumulate(0),", "rows_of(b.grad_in(0), first, x.size(0)), false,"),
    ("cumprod", "ops/reduce/scans.cpp", None, "the factors before are left out of the gradient",
     "dx = dx * cumprod(concat({ones, x.narrow(axis, 0, x.shape()[axis] - 1)}, axis), axis);", ""),
    ("linear_recurrence", "ops/reduce/scans.cpp", None, "what came before has the same place",
     "s * shifted(b.out(), axis, !attrs.reverse)", "s * b.out()"),
    ("logcumsumexp", "ops/reduce/scans.cpp", None, "what flows back is not scaled", "(share * s).to(b.in_meta(0).dtype)", "(share * g).to(b.in_meta(0).dtype)"),
    ("cumsum", "ops/reduce/scans.cpp", None, "the gradient runs the same way", "Attrs{attrs.axis, !attrs.reverse}", "Attrs{attrs.axis, attrs.reverse}"),
    ("cummax", "ops/engine/scan/operations.h", "ops/engine/scan/scan_cpu.cpp", "the first of equal ones is found",
     "b.value >= a.value", "b.value > a.value"),
    ("ops/reduce/scans_test.cpp", "ops/engine/scan/scan_cpu.cpp", None, "pieces start from nothing",
     "scan<true>(start, width, begin, end, carries(k));", "scan<true>(start, width, begin, end, carries(0));"),
    ("ops/sorting/sort_test.cpp", "ops/engine/scatter/pair_sort_cpu.h", TOPK, "the last digit is not looked at",
     "for (int shift = 0;", "for (int shift = 8;"),
    ("ops/sorting/sort_test.cpp", "ops/sorting/sort.cpp", None, "a NaN is one of many",
     "middle = where(eq(numbers, n), middle, numbers);", ""),
    ("searchsorted", "ops/sorting/searchsorted_internal.h", "ops/sorting/searchsorted_cpu.cpp", "equals are always passed",
     "right ? middle <= key : middle < key", "middle <= key"),
    ("topk", TOPK, None, "the first k elements get the gradient",
     "indices[at] * rows.inner] = from[at]", "j * rows.inner] = from[at]"),
    ("topk", TOPK, None, "the chosen element's stride is ignored",
     "indices[at] * rows.inner] = from[at]", "indices[at]] = from[at]"),
    # --- what surrounds the kernels ---
    (CROSS_TEST, CROSS, None, "a logit is read where its gradient has been written",
     "std::exp(x_label - log_sum(r))", "std::exp(static_cast<C>(x[layout.start(r) + t * step]) - log_sum(r))"),
    (CROSS_TEST, "autograd/node.cpp", None, "a gradient is written over what somebody else sees",
     "const bool unseen = storage.unique() && storage->is_owned();", "const bool unseen = storage->is_owned();"),
    (CROSS_TEST, "autograd/node.cpp", None, "a gradient is written over memory that is not ours",
     "const bool unseen = storage.unique() && storage->is_owned();", "const bool unseen = storage.unique();"),
    (CROSS_TEST, "autograd/node.cpp", None, "a gradient is never written over the logits",
     "const bool unseen = storage.unique() && storage->is_owned();", "const bool unseen = false;"),
    (RECOMPUTE_TEST, RECOMPUTE, None, "dropout draws other numbers the second time",
     "const GeneratorGuard draws(draws_);", ""),
    (RECOMPUTE_TEST, RECOMPUTE, None, "the generator is not set back",
     "~GeneratorGuard() { default_generator().set_state(previous_); }", "~GeneratorGuard() {}"),
    (RECOMPUTE_TEST, RECOMPUTE, None, "Autocast is off the second time",
     "const detail::AutocastModeGuard mode(mode_, true);", ""),
    ("autograd/create_graph_test.cpp", "autograd/node.cpp", None, "a result in place is saved with the history before it",
     "t.impl()->history_version = t.impl()->storage->history_version();", ""),
    (RECOMPUTE_TEST, "autograd/node.cpp", None, "inputs that are leaves get no gradient",
     "if (edge.leaf) return Tensor(edge.leaf);", ""),
    (SCALER_TEST, UPDATE, None, "f32 gradients are not unscaled",
     "grads[i] = g[at + i] * static_cast<C>(scale);", "grads[i] = g[at + i];"),
    (SCALER_TEST, UPDATE, None, "16-bit gradients are not unscaled",
     "for (std::int64_t i = 0; i < n; ++i) grads[i] *= static_cast<C>(scale);", ";"),
    (SCALER_TEST, UPDATE, None, "a NaN is not found",
     "bad |= !(std::abs(g[i]) <= std::numeric_limits<C>::max());",
     "bad |= std::abs(g[i]) > std::numeric_limits<C>::max();"),
    (SCALER_TEST, SCALER, None, "divided by the scale twice after unscale_()",
     "entry.unscaled ? Tensor() : number(update::kInverse)", "number(update::kInverse)"),
    ("ops/matmul/products_test.cpp", "ops/matmul/products.cpp", None, "an axis of size 1 is not repeated",
        "  match(b, a);\n", ""),
    ("ops/matmul/products_test.cpp", "ops/matmul/products.cpp", None, "axes that stay are summed",
        "rows : is_kept(label) ? stack : summed).push_back", "rows : summed).push_back"),
    ("ops/loss/composed_test.cpp", "ops/loss/composed.cpp", None, "the huber loss's line has another slope",
        "return 0.5 * square(c) + delta * abs(d - c);", "return 0.5 * square(c) + 0.5 * delta * abs(d - c);"),
    ("binary_cross_entropy", "ops/engine/map/formulas.h", BINARY, "p + b instead of p - b in the slope",
        "return g * ((p - b) / where(", "return g * ((p + b) / where("),
    ("ops/sampling/distributions_test.cpp", "ops/sampling/distributions.cpp", None, "the density of a wider bell",
        "square((value - mean_) / std_) - log(std_)", "square((value - mean_) / std_) + log(std_)"),
    (SCALER_TEST, UPDATE_RULES, UPDATE, "good steps are counted on across a bad one",
     ": 1.17549435e-38f;\n      numbers[kGoodSteps] = 0;", ": 1.17549435e-38f;"),
    (MASTER_TEST, UPDATE, None, "the parameter is not rounded from its master",
     "elements.round(values, n, e.copy ? e.copy : e.param, at);",
     "if (!e.copy) elements.round(values, n, e.param, at);"),
    (MASTER_TEST, OPTIMIZER, None, "a master keeps its value when its parameter is set",
     "state.master.copy_(where(eq(state.master.to(p.dtype()), p), state.master, p.to(f32)));", ""),
    (MASTER_TEST, OPTIMIZER, None, "masters are not saved",
     'if (state.master.defined()) dict.set(key(g, i, "master"), state.master);', ""),
    (EMA_TEST, OPTIMIZER, None, "a master loses its digits when its parameter is written",
     "state.master.copy_(where(eq(state.master.to(p.dtype()), p), state.master, p.to(f32)));", "state.master.copy_(p.to(f32));"),
    (EMA_TEST, EMA, None, "decay and its complement swapped", "update::AverageAttrs{options_.decay,",
     "update::AverageAttrs{1 - options_.decay,"),
    (EMA_TEST, UPDATE_RULES, UPDATE, "no warm-up", "o.warmup && first < o.decay ? first : o.decay", "o.decay"),
    (UPDATE_TEST, UPDATE, None, "updates of averages are not counted", "if (updates) ++*updates;", ""),
    (EMA_TEST, EMA, None, "restore() gives the averages", "params_[i].copy_(kept_[i]);",
     "params_[i].copy_(averages_[i]);"),
    (EMA_TEST, UPDATE, None, "every block of 16-bit values goes into the first", "average += n;", ""),
    ("tests/wide_grads_test.cpp", "autograd/engine.cpp", None, "weights converted for an op get 16-bit gradients",
     "edge : *beyond;", "edge : edge;"),
    ("tests/wide_grads_test.cpp", CHUNKS, None, "the chunks' products take each other's place",
     "multiply(stack(g).t(), stack(x), sum_, started_, device_);",
     "multiply(stack(g).t(), stack(x), sum_, false, device_);"),
    ("unbind", "ops/view/view_defs.cpp", None, "the last part has no gradient",
     "k < layout.output_count(); ++k", "k + 1 < layout.output_count(); ++k"),
    ("ops/view/view_test.cpp", "ops/view/view_defs.cpp", None, "parts of one tensor are joined in any order",
     "if (step <= 0 || distance != k * step) return {};", "if (step == 0) return {};"),
    # Optimizers that are made of ops, samplers, hooks, files.
    ("nn/optim/muon_test.cpp", "nn/optim/muon.cpp", None, "Nesterov's share of the gradient is left out",
     "o.nesterov ? lerp(grad, average, o.momentum) : average", "average"),
    ("nn/optim/lbfgs_test.cpp", "nn/optim/lbfgs.cpp", None, "any slope counts as flat",
     "std::abs(p.slope) <= -kFlat * start.slope", "std::abs(p.slope) <= -100 * start.slope"),
    ("nn/optim/lbfgs_test.cpp", "nn/optim/lbfgs.cpp", None, "the second loop leaves out what the first has done",
     "shares[i] - number(dot(change.y, q)) * change.inverse", "-number(dot(change.y, q)) * change.inverse"),
    ("nn/data/sampler_test.cpp", "nn/data/sampler.cpp", None, "all times have one rate",
     "exponential_from(philox_word64(draw, i)) / weights_[i]", "exponential_from(philox_word64(draw, i))"),
    ("nn/data/sampler_test.cpp", "nn/data/sampler.cpp", None, "what shares leave over is lost",
     "left > 0; ++i, --left", "false; ++i, --left"),
    ("nn/module_hooks_test.cpp", "nn/module_hooks.cpp", None, "a hook's input is not passed on",
     "input = std::move(changed);", "(void)changed;"),
    ("nn/module_seats_test.cpp", "nn/module_seats.cpp", None, "a second name for a member is a member",
     "to && of && to != of", "to != nullptr"),
    ("nn/module_seats_test.cpp", "nn/module_seats.cpp", None, "members in containers are forgotten by copies",
     "entry.holders < count_structs(*entry.owner)", "false"),
    ("nn/module_strays_test.cpp", "nn/module_strays.cpp", None, "parts of another module are called strays",
     "state.parents != 0", "false"),
    ("nn/functional_call_test.cpp", "nn/functional_call.cpp", None, "a tied tensor is replaced under one name alone",
     "by_tensor[entry.slot->tensor.impl()].push_back(entry.slot);", "by_tensor[entry.slot->tensor.impl()] = {entry.slot};"),
    ("nn/functional_call_test.cpp", "autograd/recompute.cpp", None, "the second pass takes the module's own parameters",
     "const ScopeGuard scope(scope_.get());", ""),
    # Plain kernels: the oracles.
    ("scaled_dot_product_attention", "ops/attention/attention_plain.h", "ops/attention/attention_plain.cpp",
     "the plain gradient forgets that rows sum to 1", "(dp.array().colwise() - delta)", "dp.array()"),
    ("matmul", "ops/matmul/matmul_plain.h", "ops/matmul/matmul_oracle.cpp",
     "the plain gradient of b replaces that of another product", "db += a.transpose() * g;", "db = a.transpose() * g;"),
    ("linear", "ops/linear/linear_plain.h", "ops/linear/linear_oracle.cpp",
     "the plain gradient of the bias is that of one row", "return g.colwise().sum();",
     "return g.topRows(std::min<Eigen::Index>(1, g.rows())).colwise().sum();"),
    ("std", "ops/reduce/reduce_plain.h", "ops/reduce/reduce_oracle.cpp",
     "the plain gradient lacks the root's factor 1 / 2", "g / (2 * y)", "g / y"),
    # Rules, from which gradients of gradients are made.
    ("softmax", "ops/softmax/softmax.cpp", None, "the rule forgets y in its sum",
     "y.mul(g.sub(g.mul(y).sum(axis, true)))", "y.mul(g.sub(g.sum(axis, true)))"),
    ("log_softmax", "ops/softmax/softmax.cpp", None, "the rule does not sum the cotangents",
     "g.sub(y.exp().mul(g.sum(axis, true)))", "g.sub(y.exp().mul(g))"),
    ("layer_norm", "ops/normalization/normalization.cpp", None, "the rule lacks the part along the normalized rows",
     "h - n * rules::row_mean(h * n, attrs.axes)", "h"),
    ("matmul", "ops/matmul/matmul.cpp", None, "the rule cuts a's gradient off from y's",
     "share(0, ct::matmul(g, b.transpose(-1, -2)), row, -2);", "share(0, ct::matmul(g.detach(), b.transpose(-1, -2)), row, -2);"),
    ("prod", "ops/reduce/reduce.cpp", None, "the rule gives twice the product of the others",
     "g * products_of_others(b.in(0), call)", "g * products_of_others(b.in(0), call) * 2"),
    ("slice", "ops/view/view_defs.cpp", None, "the rule puts the part at the beginning",
     "axis, start, n - start - length", "axis, 0, n - length"),
    ("where", "ops/elementwise/where.cpp", None, "the rule gives b what a should get",
     "share(2, ct::where(b.in(0), 0, b.grad()))", "share(2, ct::where(b.in(0), b.grad(), 0))"),
    ("cross_entropy", "ops/loss/classes/class_loss.cpp", None, "the rule forgets the weights of the targets",
     "softmax(x, axis) * weights - targets", "softmax(x, axis) - targets"),
    ("embedding", "ops/indexing/embedding.cpp", None, "the rule gives the padding row a gradient",
     "if (padding >= 0) g = where(", "if (false) g = where("),
    ("scaled_dot_product_attention", "ops/attention/attention.cpp", None, "the rule forgets that rows sum to 1",
     "p * (dp - sum(p * dp, {-1}, true))", "p * dp"),
    ("autograd/create_graph_test.cpp", "autograd/node.cpp", None, "saved inputs lose their history",
     "if (call.record) t = detail::with_history(t, edges[i]);", ""),
    (LAYOUTS_TEST, EXECUTE, None, "inputs reach kernels as they lie",
     "const bool copy = wants_copy(call.op.inputs, wanted, i, t);", "const bool copy = false;"),
    (LAYOUTS_TEST, EXECUTE, None, "saved tensors and cotangents reach kernels as they lie",
     "if (wants_copy(records, wanted, i, tensors[i])) tensors[i] = detail::packed(tensors[i]);", ""),
    (OBSERVER_TEST, OBSERVER, None, "a kernel runs although a tracer has its results",
     "if (!taken) call.run();", "call.run();"),
    ("ops/observer_test.cpp", "core/op/execute.cpp", None, "an op that writes many tensors runs outside of a call",
     "run({op, inputs, written, attrs}, device, kernel_kind(op, device, DType::f32));",
     "kernels_of(op, kernel_kind(op, device, DType::f32)).forward({op, inputs, written, attrs});"),
    (UPDATE_TEST, UPDATE, None, "all parameters have made as many steps", "(!e->step || *e->step == *before->step)", "(true)"),
    (UPDATE_TEST, UPDATE, None, "steps are not counted", "if (e.step) ++*e.step;", "(void)e;"),
    (UPDATE_TEST, UPDATE_RULES, UPDATE, "the learning rate in memory is not read", "if (lr) rule.lr *= *lr;", ""),
    ("nn/optim/frozen_test.cpp", OPTIMIZER, None, "counts are not loaded",
     "states[i].step = counts[i] = dict", "states[i].step = dict"),
    (UPDATE_TEST, UPDATE_RULES, UPDATE, "a power leaves out its last factor", "if (t & 1) result", "if (t & 1 && t > 1) result"),
    (UPDATE_TEST, UPDATE_RULES, UPDATE, "AdamW's decay is the gradient's, too", "decoupled ? 0 : weight_decay", "weight_decay"),
    (UPDATE_TEST, UPDATE, None, "a step clips no gradients", "if (clip != 1)", "if (false)"),
    (UPDATE_TEST, UPDATE_RULES, UPDATE, "a norm below max_norm makes gradients larger", "return factor >= 1 ? 1 : factor;", "return factor;"),
    (MERGING_TEST, MERGING, None, "a call moves behind one that reads what it writes", "meets = meets || meet_any(p, written);", "(void)p;"),
    (MERGING_TEST, MERGING, None, "clipping is left to steps that do not read all gradients", "if (!left.empty() || steps.empty()) return;", ""),
    (MERGING_TEST, MERGING, None, "a step that may be left out clips", "step.inputs[kFoundInf].defined || ", ""),
    (MERGING_TEST, MERGING, None, "what the step adds to is written once", "if (k != i && p.storage == was.storage) return;", "(void)p;"),
    (UPDATE_TEST, UPDATE, None, "a step is made although an infinity was found", "if (found_inf && *found_inf != 0) return;", ""),
    (OBSERVER_TEST, OBSERVER, None, "a tracer is not told the end",
     "between([&] { run(i + 1); }, [&] { tracers[i]->end(call); });", "run(i + 1);"),
    (OBSERVER_TEST, OBSERVER, None, "nor that of a call that fails", "      try {\n        end();", "      try {"),
    (OBSERVER_TEST, OBSERVER, None, "inner tracers come before outer ones", "std::reverse(tracers.begin(), tracers.end());", ""),
    (OBSERVER_TEST, OBSERVER, None, "a tracer stays when its scope ends", "t_innermost = outer_;", ""),
    (OBSERVER_TEST, EXECUTE, None, "what an op writes is not shown", "if (traced()) [[unlikely]]", "if (false)"),
    ("nn/init_test.cpp", "nn/init.cpp", None, "a bound is added without a rounding before", "x.normal_().mul_(std).add_(mean)", "x.normal_(mean, std)"),
    ("ops/softmax/softmax_test.cpp", "ops/engine/rows/plain.h", None, "blocks of columns overlap", "size_ * inner_ + column]", "size_ * inner_ + column / 2]"),
    (OBSERVER_TEST, EXECUTE, None, "a call is shown without its copies", "detail::observed(with, kernel);", "detail::observed(call, kernel);"),
    (LAYOUTS_TEST, EXECUTE, None, "cotangents reach kernels as they lie", "pack(copied, op.outputs, wanted);", ""),
    (LAYOUTS_TEST, EXECUTE, None, "forward in f64 by the fast kernels", "kernel_kind(call.op, device, call.in(0).dtype())", "kernel_kind(call.op, device, DType::f32)"),
    (LAYOUTS_TEST, EXECUTE, None, "backward in f64 by the fast kernels",
     "kernel_kind(op, device, given.input_metas[0].dtype)", "kernel_kind(op, device, DType::f32)"),
    (MEMORY_POOL_TEST, "core/memory/storage.cpp", None, "a storage's number is its address's",
     "if (id != 0) return id;", "if (id == 0) return reinterpret_cast<std::uintptr_t>(data_);"),
    (RECORDING_TEST, CPU_ALLOCATOR, None, "blocks of a memory pool are everybody's",
     "if (stream.native) return allocate_in(pool_of(stream), bytes);", ""),
    (MEMORY_POOL_TEST, "core/memory/cpu_allocator_internal.h", "core/memory/cpu_pools.cpp", "a memory pool's next step finds other addresses",
     "Ranges(Fit::first), id(i)", "Ranges(Fit::best), id(i)"),
    (MEMORY_POOL_TEST, "core/memory/cpu_pools.cpp", None, "a released memory pool keeps what comes back",
     "if (pool.released) release_ranges(pool);", ""),
    (LAYOUTS_TEST, "core/op/registry.cpp", None, "plain kernels are not told from those of the CPU",
     "op.linked.has_plain = kernels.forward != nullptr;", "op.linked.has_plain = false;"),
    ("rnn", CELLS, STEPS_CPU, "the state not squared in tanh's slope", "(1 - kept[0] * kept[0])", "(1 - kept[0])"),
    ("gru", CELLS, STEPS_CPU, "u_n's cotangent without the reset gate", "du[2] = dp[2] * r;", "du[2] = dp[2];"),
    ("lstm", CELLS, STEPS_CPU, "the memory's cotangent not multiplied by f", "dc = d * f;", "dc = d;"),
    ("lstm", STEPS, STEPS_CPU, "a sequence that has ended goes back on", "if (!s.ended(row)) {", "if (true) {"),
    ("rnn", "ops/recurrence/recurrence_sequence.cpp", None, "back in the order of forward",
     "for (int64_t n = s.steps - 1; n >= 0; --n) {", "for (int64_t n = 0; n < s.steps; ++n) {"),
    ("gru", "ops/recurrence/recurrence_plain.h", "ops/recurrence/recurrence_plain.cpp", "what passes by u is lost",
     "dh_past = dh * g.z;", "dh_past = 0 * g.z;"),
    ("gru", "ops/recurrence/recurrence.cpp", None, "the rule sends dp through w_hh", "matmul(dus[i], w_hh)", "matmul(dps[i], w_hh)"),
    ("rnn", "ops/recurrence/recurrence.cpp", None, "lengths of another dtype are said to be of another shape",
     "lengths.dtype() == i64, DTypeError", "lengths.dtype() == i64, ShapeError"),
    ("add", "ops/dispatch.cpp", None, "inputs are not counted", "CT_CHECK(inputs == wanted ||", "CT_CHECK(true || inputs == wanted ||"),
    ("linear_recurrence", "ops/dispatch.cpp", None, "attributes are not looked at", "CT_CHECK(has_attributes(op, attrs),", "CT_CHECK(true,"),
    (RECURRENT_TEST, RECURRENT, None, "both directions go forward", "{ends, d == 1}", "{ends, false}"),
    # Edges: files, attributes, values.
    ("nn/data/csv_test.cpp", CSV, None, "a number that rounds to infinity in f16 is read", "? 65520", "? 1e300"),
    ("nn/data/csv_test.cpp", CSV, None, "a number that rounds to infinity in f32 is read", "? 0x1.ffffffp127", "? inf"),
    ("nn/data/image_test.cpp", IMAGE, None, "a picture's gamma changes its numbers", 'chunk == "gAMA" || ', ""),
    ("nn/data/image_test.cpp", IMAGE, None, "scans without end", "kMostScans = 100;", "kMostScans = 1000000;"),
    ("nn/io/npy_test.cpp", "nn/io/npy.cpp", None, "the shape (3) is read as (3,)", "require(header_.shape.size() > 1);", ""),
    ("nn/io/safetensors_test.cpp", FOREIGN, None, "an 8-bit integer has no sign", 'widen_integers<1, true, std::int32_t>', 'widen_integers<1, false, std::int32_t>'),
    ("nn/io/safetensors_test.cpp", FOREIGN, None, "a 16-bit integer without a sign has one", 'widen_integers<2, false, std::int32_t>', 'widen_integers<2, true, std::int32_t>'),
    ("nn/io/safetensors_test.cpp", FOREIGN, None, "small numbers of 8-bit floats are twice as large", "sign | (8 - shift) << 10", "sign | (9 - shift) << 10"),
    ("nn/optim/scheduler_test.cpp", "nn/state_dict.cpp", None, "a state's counter may be about to overflow", "n >= 0 && n <= most", "n >= 0"),
    ("ops/creation/creation_test.cpp", "ops/creation/creation.cpp", None, "strides may reach beyond all memory", "CT_CHECK(fits, ShapeError,", "CT_CHECK(fits || true, ShapeError,"),
    ("tests/hostile_attributes_test.cpp", "ops/indexing/rearrange.cpp", None, "sizes of a pad may overflow",
     "!__builtin_add_overflow(shape[i], a.before[i], &shape[i]) &&", "(__builtin_add_overflow(shape[i], a.before[i], &shape[i]) || true) &&"),
    ("nn/explain/explain_test.cpp", "nn/explain/page.cpp", None, "a name ends the page's script", """json.find('<', at)""", """json.find('\\x01', at)"""),
    (CAPTURE_TEST, REPLAY, None, "replays take no draws", "[draws] { default_generator().reserve(draws); }", "[] {}"),
    (CAPTURE_TEST, REPLAY, None, "replays draw from where the recording did", "const GeneratorState draw = check ? check->draw : default_generator().state();",
     "const GeneratorState draw{mailbox->draws()->seed, mailbox->draws()->offset};"),
    (CAPTURE_TEST, REPLAY, None, "a learning rate stays as it was recorded", "check->values[slot] : e.value());",
     "check->values[slot] : *static_cast<std::uint64_t*>(mailbox->at(e.slot)));"),
    (CAPTURE_TEST, RECORDER, None, "gradients stay where they were", "if (gradient_of(tensor) == end) return;", "return;"),
    (CAPTURE_TEST, OPTIMIZER, None, "a replay's master is taken for an old one", "s.rounded_version = group_at(g).params[at].impl()->storage->version() + 1;", "s.step += 0;"),
    (BETWEEN_TEST, REPLAY, None, "a replay is no change", "for (std::uint32_t n = 0; n < w.versions; ++n)", "for (std::uint32_t n = 1; n < w.versions; ++n)"),
    (BETWEEN_TEST, PROGRAM, None, "the grad mode is nobody's", "pack(grad_enabled(), mode.enabled,", "pack(0, mode.enabled,"),
    (BETWEEN_TEST, PROGRAM, None, "autocast is nobody's", "mode.enabled, mode.enabled ?", "0, 0 * mode.enabled ?"),
    (BETWEEN_TEST, RECORDER, None, "guards are not asked", "if (guard.noted && !guard.holds()) return", "if (false) return"),
    (BETWEEN_TEST, RECORDER, None, "guards are asked once", "if (!guard.noted && !guard.holds()) return", "if (false) return"),
    (BETWEEN_TEST, RECORDER, None, "changes of state are not seen", "epoch == asked ?", "asked ?"),
    (BETWEEN_TEST, RECORDER, None, "hooks of parameters are not asked for", "if (!leaf.has_its_hooks()) return", "if (false) return"),
    (BETWEEN_TEST, "nn/module_hooks.cpp", None, "a hook that goes is no change", "    ++changes;", ""),
    (FOOTGUNS_TEST, RECORDER, None, "a tensor that is gone is replayed", "if (alone) return", "if (false) return"),
    (STEP_MEMORY_TEST, REPLAY, None, "what is kept lies in memory that others use", "if (!strays || !recorded.shared) return;",
     "(void)strays; return;"),
    (STEP_MEMORY_TEST, "core/memory/block_plan.cpp", None, "what stays lies where the rest does", "return before_[next_++].stays;",
     "return ++next_, false;"),
    (BETWEEN_TEST, RECORDER, None, "gradients at the start do not matter", "if (Leaf::gradient_of(leaf.tensor) != leaf.start)", "if (false)"),
    (REFUSALS_TEST, RECORDER, None, "attributes may change", "if (!same_attributes(*x.op, x.attrs, y.attrs, &field))", "if (false)"),
    (REFUSALS_TEST, RECORDER, None, "state may go on by assignment", "was || is ? p.data == q.data && was == is", "was || is ? was == is"),
    (REFUSALS_TEST, "nn/capture/check.cpp", None, "results are not compared", 'demand(same(results_[i], recorded_.results[i]), cat("result ", i));', ""),
    (REFUSALS_TEST, "nn/capture/check.cpp", None, "state is not compared", "demand(same(memory_[i], after_[i]),", "demand(true,"),
    (PROFILE_TEST, CALL_COSTS, None, "a tensor that is given twice is read twice", "if (!again) bytes", "bytes"),
    (PROFILE_TEST, CALL_COSTS, None, "an expanded axis is read element by element", "!(head >> (24 + i) & 1)", "true"),
    (PROFILE_TEST, CALL_COSTS, None, "a product's gradients are one product", "std::min(factors, 2)", "std::min(factors, 1)"),
    (PROFILE_TEST, CALL_COSTS, None, "a gradient handed on is written", "g.flags & kHandedOn", "false"),
    (PROFILE_TEST, MEMORY_WATCH, None, "a call's results are nobody's", "call == kOutside)", "call == kBefore)"),
    (PROFILE_TEST, MEMORY_WATCH, None, "memory from before stays", "sample();  // blocks from before may have died", ""),
    (PROFILE_TEST, MEMORY_WATCH, None, "an allocator stays in front after the profile", "== place.watched)", "== place.own)"),
    (PROFILE_TEST, "nn/profile/table.cpp", None, "a call's time is its kernel's own, too", "] -= calls[i].us;", "] -= 0;"),
    (PROFILE_TEST, "nn/profile/profiler.cpp", None, "a call within a kernel stands alone", "shown.parent = c.parent;", "shown.parent = -1;"),
    (PROFILE_TEST, "nn/profile/limits.cpp", None, "the caches are left as they are", "if (rest.defined()) rest.fill_(i % 2);", ""),
    ("ops/loss/composed_test.cpp", "ops/loss/composed.cpp", None, "lengths of a cosine are those before broadcasting along its axis", "; i != at) whole[i]", "; true) whole[i]"),
    ("ops/convolution/pooling_test.cpp", "ops/convolution/pooling.cpp", None, "ceil_mode refuses a window larger than the image",
     "CT_CHECK(room >= 0,", "CT_CHECK(span >= reach,"),
    ("ops/indexing/index_test.cpp", "ops/indexing/index.cpp", None, "x[...] is x itself", "named.view.is_same(*this) ? view(shape()) : named.view;", "named.view;"),
    ("nn/optim/lbfgs_test.cpp", "nn/optim/lbfgs.cpp", None, "the line search knows no limit of evaluations", "(options_.max_eval && evaluations_ >= most)", "false"),
    ("nn/optim/scheduler_test.cpp", "nn/optim/scheduler.cpp", None, "of a cycle's phases that end together the last counts", "if (t == phase.end) return phase.lr;", ""),
    ("ops/indexing/masks_test.cpp", "ops/indexing/masks.cpp", None, "a number changes the dtype of a bool tensor", "x.dtype() == DType::boolean ? Scalar(value.to<bool>()) : value", "value"),
    ("ops/elementwise/binary_test.cpp", "ops/elementwise/binary.cpp", None, "integers and 2^63 meet in f32",
     "v < -0x1p63 || v >= 0x1p63) return v < 0 ? -INFINITY : INFINITY;", "v < -0x1p63 || v >= 0x1p63) return p;"),
    ("ops/elementwise/binary_test.cpp", "ops/elementwise/binary.cpp", None, "a fraction is compared in f32", "exact ? x.to(DType::i64) : x, n);", "x, p);"),
    (FUSE_TEST, "ops/fusion/build.cpp", None, "of gradients that meet the last alone is kept", "sum = sum < 0 ? g : b.sum(sum, g);", "sum = g;"),
    (FUSE_TEST, CHAIN, None, "a slot is used again while its value is still read", "if (again || p.last_use[v] != s) continue;", "if (again) continue;"),
    (ROWS_TEST, ASSEMBLY, None, "a value of the rows is read along another axis", "if (!w->place->laid_out_as(p) || p.shape.size() != now.shape->size())",
     "if (!w->place->laid_out_as(p))"),
    (ROWS_TEST, ROWS, None, "a gradient of all rows is that of some", "if (!whole_ && (record.shared >> k & 1u))", "if (false)"),
    (ROWS_TEST, ROWS, None, "draws begin anew with each run", "formulas && formulas->y.draws)", "formulas && false)"),
    (ROWS_TEST, ROWS, None, "rows are those of the first place", "d + 1 < lead ? place[d] : first) * strides[k]", "d + 1 < lead ? 0 : first) * strides[k]"),
    (ROWS_TEST, "ops/reduce/reduce_cpu.cpp", None, "a row that is cut into pieces has other sums", "return count <= 2 * kChunkWork &&", "return count > 0 &&"),
    (LOSSES_TEST, CROSS, None, "what reads a loss's gradient runs before it is there", "if (passes) passes->store(", "if (passes && end < layout.rows()) passes->store("),
    (LOSSES_TEST, "nn/capture/fusion_whole.cpp", None, "a chunk of what a loss reads counts from its own beginning", "return data;", "return buffer;"),
    (LOSSES_TEST, ASSEMBLY, None, "the gradient of a mean is that of a sum", "b.elements = ct::numel(*part.shape)", "b.elements = 1"),
    (LOSSES_TEST, ASSEMBLY, None, "logits that others read are kept by nobody", "needed = needed || (whole_ && (w.phase == row ? !on_gpu_ : !is_passed(w)));", "needed = needed || (whole_ && w.phase == row);"),
    (LOSSES_TEST, ASSEMBLY, None, "a call that another one makes stands between its neighbours", "if (c.runs != RecordedCall::Runs::each) continue;", ""),
    (FUSION_TEST, ASSEMBLY, None, "a value that outlives the step is not written", 'if (!passing_.contains(written.place->storage)) return true;', 'if (!passing_.contains(written.place->storage)) return false;'),
    (FUSION_TEST, ASSEMBLY, None, "a group runs behind a call that needs it", 'if (meets) {', 'if (false) {'),
    (FUSION_TEST, ASSEMBLY, None, "a value is read in another layout as if in its own", 'if (!w.place->laid_out_as(p)) return fail("reads a value of the group in another layout");', ''),
    (FUSION_TEST, ASSEMBLY, None, "steps of 16 bits are not rounded", 'b.finish(std::move(results), true)', 'b.finish(std::move(results), false)'),
    (FUSION_TEST, "core/memory/block_plan.cpp", None, "memory that the result takes counts as held",
     "later.insert(block.address).second && in_use(block)", "in_use(block)"),
    (FUSE_TEST, "ops/fusion/fuse.cpp", None, "one tensor as two arguments has one place on the tape of the rule", "record ? t.unsqueeze(0).squeeze(0)", "record ? t"),
    ("ops/elementwise/unary_cold_test.cpp", "ops/elementwise/unary_table.inc", UNARY, "hardtanh's slope at NaN", "where((x > p) & (x < q), g, 0))", "where((x <= p) | (x >= q), 0, g))"),
]

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAIN, CONFORMANCE = "tests/main.cpp", "tests/conformance_test.cpp"
CASE = '"every op conforms to its definition"'  # quoted: main.cpp appends the exclusion of CUDA tests
TIMEOUT = 300  # seconds for one judgement


class Broken(Exception):
    """Nothing was learnt: the fault does not fit, or the build failed."""


def run(command, what, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          **options)
    if done.returncode:
        raise Broken(f"{what} failed:\n{done.stdout[-3000:]}")
    return done.stdout


class Tree:
    def __init__(self, build, jobs, judges):
        self.build = os.path.abspath(build)
        self.work = os.path.join(self.build, "faults")
        os.makedirs(self.work, exist_ok=True)
        flags = ["CMAKE_BUILD_TYPE=Release", "CMAKE_CXX_FLAGS_RELEASE=-O1", "BUILD_SHARED_LIBS=OFF",
                 "CMAKE_DISABLE_PRECOMPILE_HEADERS=ON", "CMAKE_EXPORT_COMPILE_COMMANDS=ON", "COTANGENT_CUDA=OFF",
                 "COTANGENT_BUILD_TESTS=ON", "COTANGENT_BUILD_EXAMPLES=OFF", "COTANGENT_BUILD_BENCH=OFF",
                 "COTANGENT_INSTALL=OFF",
                 "COTANGENT_BATCH=OFF", "COTANGENT_MARCH=native"]  # each file by itself, and once
        run(["cmake", "-S", ROOT, "-B", self.build, *("-D" + f for f in flags)], "cmake")
        run(["cmake", "--build", self.build, "--target", "cotangent_io", "cotangent_samples", "--parallel", str(jobs)], "the build")
        with open(os.path.join(self.build, "compile_commands.json"), encoding="utf-8") as f:
            self.commands = {os.path.relpath(c["file"], ROOT): c for c in json.load(f)}
        tests = sorted({MAIN} | {test_file(judge) for judge in judges})
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            objects = pool.map(lambda t: self.compile(t, os.path.join(ROOT, t), self.work), tests)
            self.tests = dict(zip(tests, objects))

    def compile(self, unit, source, folder, overlay=None):
        """Compiles `source` with the options of `unit`; files under `overlay` hide those of the project."""
        if unit not in self.commands:
            raise Broken(f"{unit} is not part of the build")
        entry = self.commands[unit]
        command = shlex.split(entry["command"])
        target = os.path.join(folder, unit.replace("/", "_") + ".o")
        command[command.index("-o") + 1] = target
        command[command.index("-c") + 1] = source
        if overlay:
            command.insert(1, "-I" + overlay)
        launcher = os.environ.get("CMAKE_CXX_COMPILER_LAUNCHER")
        run(([launcher] if launcher else []) + command, "compiling " + unit, cwd=entry["directory"])
        return target

    def link(self, program, judge, objects=()):
        compiler = shlex.split(self.commands[MAIN]["command"])[0]
        libraries = [os.path.join(self.build, f"lib{name}.a") for name in ("cotangent_io", "cotangent_samples", "cotangent_testing", "cotangent")]
        tests = [self.tests[MAIN], self.tests[test_file(judge)]]
        catch2 = ["-lCatch2"] if os.path.exists("/usr/include/catch2/catch_all.hpp") else []  # 2 has headers alone
        run([compiler, *tests, *objects, *libraries, *catch2, "-lz", "-pthread", "-o", program], "linking")
        return program

    def is_green(self, program, judge):
        """Whether the judge's tests pass. A crash or a hang is red too."""
        chosen = [] if test_file(judge) == judge else [CASE, "-c", judge]
        try:
            done = subprocess.run([program, *chosen], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=TIMEOUT, text=True, errors="replace", cwd=self.work)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode == 0 and not re.search(r"All tests passed \(\d+ assertion", done.stdout):
            raise Broken(f"no test ran for {judge}:\n{done.stdout[-500:]}")
        return done.returncode == 0

    def is_green_without_faults(self, judge):
        program = os.path.join(self.work, "ct_baseline_" + judge.replace("/", "_"))
        green = self.is_green(self.link(program, judge), judge)
        os.remove(program)
        return green


def describe(fault):
    judge, file, _, what, _, _ = fault
    return f"{os.path.basename(judge):28} {file:45} {what}"


def test_file(judge):
    return judge if judge.endswith("_test.cpp") else CONFORMANCE


def planted(fault):
    """The text of its file, with the fault."""
    _, file, _, _, old, new = fault
    with open(os.path.join(ROOT, file), encoding="utf-8") as f:
        text = f.read()
    if text.count(old) != 1:
        raise Broken(f"{file}: the text to change stands there {text.count(old)} times, not once: {old}")
    return text.replace(old, new)


def fits(number, fault):
    """Names it, and says whether it could be planted today."""
    print(f"{number:3} {describe(fault)}")
    try:
        planted(fault)
    except (Broken, OSError) as error:
        print(f"FAILED: {error}")
        return False
    return True


def try_fault(tree, number, fault):
    """(verdict, seconds, details)."""
    judge, file, unit, *_ = fault
    start = time.monotonic()
    try:
        text = planted(fault)
        folder = os.path.join(tree.work, str(number))
        shutil.rmtree(folder, ignore_errors=True)  # the fault of this number may have been in another file
        changed = os.path.join(folder, "cotangent", file)
        os.makedirs(os.path.dirname(changed), exist_ok=True)
        with open(changed, "w", encoding="utf-8") as f:
            f.write(text)
        source = os.path.join(ROOT, unit) if unit else changed
        changed_object = tree.compile(unit or file, source, folder, folder)
        program = tree.link(os.path.join(folder, "ct_fault"), judge, [changed_object])
        green = tree.is_green(program, judge)
        os.remove(program)
        return ("SURVIVED" if green else "caught"), time.monotonic() - start, ""
    except Broken as error:
        return "ERROR", time.monotonic() - start, str(error)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="N[-M]", help="only fault number N, or those from N to M")
    parser.add_argument("--jobs", type=int, metavar="N", default=os.cpu_count() or 1)
    parser.add_argument("--build", metavar="FOLDER", default=os.path.join(ROOT, "build", "mutation"))
    parser.add_argument("--list", action="store_true", help="list the faults and stop")
    options = parser.parse_args()
    only = re.fullmatch(r"(\d+)(?:-(\d+))?", options.only or f"1-{len(FAULTS)}")
    if not only:
        parser.error("--only: a number, or two with - between them")
    first, last = only.groups()
    chosen = {n: f for n, f in enumerate(FAULTS, 1) if int(first) <= n <= int(last or first)}
    if not chosen:
        parser.error(f"--only: there are faults 1 to {len(FAULTS)}")
    if options.list:
        return 0 if all([fits(n, fault) for n, fault in chosen.items()]) else 1

    jobs = max(1, options.jobs)
    try:
        print("building the library and the tests at -O1", flush=True)
        judges = sorted({f[0] for f in chosen.values()})
        tree = Tree(options.build, jobs, judges)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            red = [j for j, green in zip(judges, pool.map(tree.is_green_without_faults, judges)) if not green]
        if red:
            raise Broken("red without any fault: " + ", ".join(red))
        print(f"green without faults: {len(judges)} ops and test files", flush=True)
    except Broken as error:
        print(error, file=sys.stderr)
        return 1

    count = {"caught": 0, "SURVIVED": 0, "ERROR": 0}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda item: try_fault(tree, *item), chosen.items())
        for (n, fault), (verdict, seconds, details) in zip(chosen.items(), results):
            count[verdict] += 1
            print(f"{n:3} {verdict:8} {seconds:5.0f} s  {describe(fault)}", flush=True)
            if details:
                print(details, flush=True)
    errors = f", {count['ERROR']} that could not be tried" if count["ERROR"] else ""
    print(f"{count['caught']} caught, {count['SURVIVED']} survived{errors}")
    return 0 if count["caught"] == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
