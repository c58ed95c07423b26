#include <cotangent/core/jit/cuda_text.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/cotangent.h>
#include <cotangent/nn/plugin/load_op.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/testing/conformance.h>
#include <cotangent/ops/testing/gradcheck.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

// ./ct op build | check | bench FOLDER...: an op of one's own (nn/plugin/README.md).

namespace {

using ct::Tensor;
using Tensors = std::vector<Tensor>;

ct::LoadedOp load(const std::string& folder) {
  const auto start = std::chrono::steady_clock::now();
  ct::LoadedOp op = ct::load_op(folder);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%s: %s, %s in %.1f s\n", op.op->name, op.op->formula,
              op.built ? "compiled and loaded" : "loaded", seconds.count());
  CT_CHECK(op.tests != nullptr && op.tests->samples != nullptr, ct::ValueError, op.op->name,
           "has no samples; CT_OWN_OP(.tests = ...) names them");
  return op;
}

Tensors call(const ct::OpDef& op, const Tensors& inputs, const ct::AnyAttrs& attrs) {
  std::vector<ct::TensorRef> refs;
  for (const Tensor& t : inputs) refs.push_back(&t);
  Tensors outputs(op.outputs.size());
  ct::dispatch(op, refs, attrs.view(), outputs);
  return outputs;
}

// The kernels of the GPU, where there is a compiler for them.
void compile_cuda(const ct::LoadedOp& op) {
  if (op.cuda == nullptr) return;
  if (ct::CudaText::compiler().empty()) {
    std::printf("  CUDA kernels: neither nvcc nor NVRTC is here; they are compiled where they run\n");
    return;
  }
  std::string arch = "80";  // without a GPU, the oldest that there are kernels for
  if (ct::cuda_is_available()) arch = ct::CudaText::arch(ct::cuda(0));
  for (const ct::DType dtype : {ct::f32, ct::f64, ct::f16, ct::bf16})
    if (op.op->dtypes & ct::dtype_bit(dtype)) op.cuda->compile(op.op->name, dtype, arch);
  std::printf("  CUDA kernels: compiled for sm_%s by %s\n", arch.c_str(), ct::CudaText::compiler().c_str());
}

// Conformance, and beside it what it holds too, one by one: each sample's gradient, and its gradient's.
bool check(const ct::LoadedOp& op, const std::vector<ct::Device>& devices) {
  compile_cuda(op);
  const ct::ConformanceReport report = ct::check_conformance(*op.op, *op.tests, {.devices = devices});
  for (const ct::ConformanceRow& row : report.rows)
    std::printf("  %-7s %-5s forward %-6s backward %s\n", ct::to_string(row.device).c_str(),
                std::string(ct::name(row.dtype)).c_str(), row.forward ? "ok" : "WRONG",
                row.backward            ? "ok"
                : op.op->differentiable ? "WRONG"
                                        : "-");
  for (const std::string& failure : report.failures) std::printf("  %s\n", failure.c_str());
  bool ok = report.ok();
  std::printf("conformance: %d checks, %zu failures\n", report.checks, report.failures.size());
  ct::SampleMaker make(1);
  int checked = 0, second = 0;
  for (const ct::Sample& sample : op.tests->samples(make)) {
    const bool floats = std::any_of(sample.inputs.begin(), sample.inputs.end(), [](const Tensor& t) {
      return t.defined() && t.dtype() == ct::f64 && t.numel() != 0;
    });
    if (!op.op->differentiable || !sample.smooth || !floats) continue;
    const ct::GradcheckFunction f = [&](const Tensors& inputs) { return call(*op.op, inputs, sample.attrs); };
    for (const bool twice : {false, true}) {
      if (twice && op.op->rule == nullptr) continue;
      const ct::GradcheckOptions options{.all_devices = devices.size() > 1};
      const ct::GradcheckResult result =
          twice ? ct::gradgradcheck(f, sample.inputs, options) : ct::gradcheck(f, sample.inputs, options);
      ++(twice ? second : checked);
      if (!result) std::printf("  %s: %s\n", sample.label, result.message.c_str());
      ok = ok && result.ok;
    }
  }
  std::printf("gradcheck: %d samples, %d of them twice\n%s\n", checked, second, ok ? "passed" : "FAILED");
  return ok;
}

// The median time of f in milliseconds, with warm caches.
template <class F>
double milliseconds(ct::Device device, const F& f) {
  return 1e3 * ct::time_of(f, {.warmup = 5, .runs = 50, .flush = false, .device = device});
}

double bytes_of(const Tensor& t) {
  return t.defined() ? static_cast<double>(t.numel()) * static_cast<double>(ct::size_of(t.dtype())) : 0;
}

struct Times {
  double forward = 0, backward = 0;
};
template <class F>
Times measure(ct::Device device, const Tensors& inputs, const Tensors& cotangents, F f) {
  Tensors wanted;
  for (const Tensor& t : inputs)
    if (t.requires_grad()) wanted.push_back(t);
  Times times;
  times.forward = milliseconds(device, [&] {
    const ct::NoGrad guard;
    f();
  });
  if (wanted.empty()) return times;
  const Tensors outputs = f();
  times.backward =
      milliseconds(device, [&] { ct::grad({outputs[0]}, wanted, {cotangents[0]}, {.retain_graph = true}); });
  return times;
}

void bench(const ct::LoadedOp& op, ct::Device device) {
  ct::SampleMaker make(1);
  const ct::Sample sample = (op.bench ? op.bench : op.tests->samples)(make).back();
  Tensors inputs;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    Tensor t = sample.inputs[i];
    if (t.defined()) t = (t.dtype() == ct::f64 ? t.to(ct::f32) : t).to(device);
    if (t.defined() && t.dtype() == ct::f32 && op.op->inputs[std::min(i, op.op->inputs.size() - 1)].gradient)
      t.set_requires_grad();
    inputs.push_back(t);
  }
  const auto ours = [&] { return call(*op.op, inputs, sample.attrs); };
  const Tensors outputs = ours(), cotangents{ct::ones_like(outputs[0].detach())};

  // Every tensor moved once: the limit is a copy that reads and writes as many bytes.
  double forward = 0, backward = bytes_of(cotangents[0]);
  for (const Tensor& t : outputs) forward += bytes_of(t);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    forward += bytes_of(inputs[i]);
    if (ct::mask_bit(op.op->all_saved_inputs, i)) backward += bytes_of(inputs[i]);
    if (inputs[i].defined() && inputs[i].requires_grad()) backward += bytes_of(inputs[i]);
  }
  std::uint32_t saved_outputs = 0;
  for (const ct::Saves& saves : op.op->saves) saved_outputs |= saves.outputs;
  for (std::size_t k = 0; k < outputs.size(); ++k)
    if (ct::mask_bit(saved_outputs, k)) backward += bytes_of(outputs[k]);
  const auto copy_ms = [&](double bytes) {
    const Tensor from = ct::ones({static_cast<std::int64_t>(bytes / 8)}, {.device = device}),
                 to = ct::empty_like(from);
    return milliseconds(device, [&] { Tensor(to).copy_(from); });
  };
  std::printf("%s on %s, f32, %s\n", op.op->name, ct::to_string(device).c_str(), sample.label);

  const Times own = measure(device, inputs, cotangents, ours);
  Times composed;
  if (op.tests->reference)
    composed =
        measure(device, inputs, cotangents, [&] { return op.tests->reference(inputs, sample.attrs.view()); });
  std::printf("  %-9s %10s %10s %14s %14s\n", "", "ms", "GB/s", "a copy, ms", "composed, ms");
  const auto row = [&](const char* what, double bytes, double ms, double other) {
    if (ms == 0) return;
    const double limit = copy_ms(bytes);
    std::printf("  %-9s %10.3f %10.1f %8.3f (%2.0f%%)", what, ms, bytes / ms / 1e6, limit, 100 * limit / ms);
    if (other != 0) std::printf(" %14.3f (%.1f x)", other, other / ms);
    std::printf("\n");
  };
  row("forward", forward, own.forward, composed.forward);
  row("backward", backward, own.backward, composed.backward);
}

// Compiles all of it.
void build(const std::string& folder) {
  const ct::LoadedOp op = load(folder);
  std::printf("  %s\n", op.library.c_str());
  compile_cuda(op);
}

int usage() {
  std::fputs("usage: op build|check|bench FOLDER... [--device cpu|cuda]; ./ct op --help says more\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::vector<ct::Device> devices{ct::cpu};
  if (ct::cuda_is_available()) devices.push_back(ct::cuda(0));
  bool ok = true;
  try {
    if (words.size() > 2 && words[words.size() - 2] == "--device") {
      devices = {ct::parse_device(words.back())};
      words.resize(words.size() - 2);
    }
    if (words.size() < 2 || (words[0] != "build" && words[0] != "check" && words[0] != "bench"))
      return usage();
    for (const ct::Device device : devices) ct::check_device("op", device);
  } catch (const ct::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  for (std::size_t i = 1; i < words.size(); ++i)
    try {  // an error in one folder does not stop the work on the next one
      if (words[0] == "build") {
        build(words[i]);
      } else {
        const ct::LoadedOp op = load(words[i]);
        if (words[0] == "check") ok = check(op, devices) && ok;
        if (words[0] == "bench")
          for (const ct::Device device : devices) bench(op, device);
      }
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      ok = false;
    }
  return ok ? 0 : 1;
}
