#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <tuple>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/testing/conformance_internal.h>
#include <cotangent/ops/testing/layout_copy_internal.h>

namespace ct::testing::conformance {
namespace {

constexpr std::size_t kFewest = 10;  // bad calls that an op must have
constexpr std::int64_t kMost = 12;   // inputs of the call that they are made of

template <class... E>
bool is(const Error& e) {
  const Error* const error = &e;  // g++ 13 warns of a comparison with &e, where E is Error
  return (... || (dynamic_cast<const E*>(error) != nullptr));
}

void replace_all(std::string& text, const std::string& what, const char* by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos;)
    text.replace(at, what.size(), by);
}

}  // namespace

struct BadCalls::Fault {
  std::string what;
  bool certain = true;  // must fail; else it may work
  bool (*kind)(const Error&) = is<Error>;
  const char* op = nullptr;  // in front of the message, if not this op's name
  const char* piece = "";    // of the message
};

void BadCalls::check(SampleMaker& make, Device device) {
  const NoGrad guard;
  device_ = device;
  if (samples_.empty()) return;
  // The sample with most inputs and most axes, if it is small. Its dtype is the first that the op has.
  const auto weight = [](const Sample& s) {
    std::int64_t tensors = 0, axes = 0, elements = 0, least = 1;
    for (const Tensor& t : s.inputs) {
      if (!t.defined()) continue;
      ++tensors, axes += t.dim(), elements += t.numel(), least = std::min(least, t.numel());
    }
    return std::tuple(tensors <= kMost ? tensors : 0, least, elements < 2000, axes);
  };
  sample_ = &*std::max_element(samples_.begin(), samples_.end(),
                               [&](const Sample& a, const Sample& b) { return weight(a) < weight(b); });
  const auto dtype = static_cast<DType>(std::countr_zero(op_.dtypes));
  try {
    good_ = convert(op_, sample_->inputs, dtype, device);
    results_ = call(op_, good_, sample_->attrs);
    check_samples(make);
    check_counts();
    check_attributes();
    check_dtypes();
    check_devices();
    check_shapes();
    check_in_place();
    if (op_.differentiable && is_floating(dtype)) check_backward();
  } catch (const std::exception& e) {
    return report_.failures.push_back(detail::cat("bad calls on ", to_string(device), ": threw ", e.what()));
  }
  std::set<std::string> different;
  for (const auto& [what, text] : texts_) different.insert(text);
  different.erase("");
  if (different.size() < kFewest)
    report_.failures.push_back(detail::cat("only ", different.size(),
                                           " bad calls fail, each with a text of its own; ", kFewest,
                                           " are wanted: add error samples"));
}

template <class F>
void BadCalls::attempt(const Fault& fault, const Tensors& inputs, F&& run) {
  ++report_.checks;
  const auto fail = [&](const auto&... why) {
    report_.failures.push_back(detail::cat(fault.what, " on ", to_string(device_), ": ", why...));
  };
  Tensors before;
  for (const Tensor& t : inputs) before.push_back(t.defined() ? t.detach().clone() : t);
  std::string text;
  try {
    run();
    synchronize(device_);  // a bad index on a GPU is reported here at the latest
    if (fault.certain) return fail("did not fail; want an error with \"", fault.piece, '"');
  } catch (const Error& e) {
    text = e.what();
    if (!fault.kind(e)) fail("threw an error of another kind: ", text);
  } catch (const std::exception& e) { return fail("threw what is no ct::Error: ", e.what()); }
  if (!text.empty()) {
    const std::string front = fault.op ? fault.op : text.substr(1, text.find(']') - 1);
    if (text[0] != '[' || text.compare(1, front.size(), front) != 0 ||
        (!fault.op && std::string(op_.name).find(front) == std::string::npos))
      fail("the message has no [op] in front: ", text);
    if (text.find("; ") == std::string::npos) fail("the message does not say what is wanted: ", text);
    // A GPU's tensors are named with their device, and samples promise the text for the CPU.
    replace_all(text, " on " + to_string(device_), "");
    if (text.find(fault.piece) == std::string::npos)
      fail("the message is \"", text, "\", want \"", fault.piece, "\" in it");
    replace_all(text, " on cuda:0", "");
    replace_all(text, "(cuda:0)", "(cpu)");
    // A GPU names any of several bad indices.
    if (std::size_t end = text.find(" is out of range for "); end != std::string::npos)
      while (text[end - 1] != ' ') text.erase(--end, 1);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!same_bits(inputs[i], before[i])) fail("input ", i, " has changed");
    const Tensors again = call(op_, good_, sample_->attrs);
    for (std::size_t k = 0; k < results_.size(); ++k)
      if (!same_bits(again[k], results_[k])) fail("the next call gives other bits in output ", k);
  }
  const auto [at, fresh] = texts_.try_emplace(fault.what, text);
  if (!fresh && at->second != text)
    fail("the message is \"", text, "\", on the first device \"", at->second, '"');
}

void BadCalls::attempt(const Fault& fault, const Tensors& inputs) {
  attempt(fault, inputs, [&] { call(op_, inputs, sample_->attrs); });
}

void BadCalls::check_samples(SampleMaker& make) {
  if (tests_.error_samples == nullptr) return;
  const std::vector<ErrorSample> samples = tests_.error_samples(make);
  for (std::size_t s = 0; s < samples.size(); ++s) {
    Tensors inputs;
    for (const Tensor& t : samples[s].inputs)
      inputs.push_back(t.defined() ? testing::copy_with_layout(t, device_) : t);
    attempt({.what = detail::cat("error sample ", s), .piece = samples[s].message}, inputs,
            [&] { call(op_, inputs, samples[s].attrs); });
  }
}

void BadCalls::check_counts() {
  Tensors inputs = good_;
  inputs.push_back(good_[0]);
  attempt({"an input more", !op_.inputs.back().rest, is<ValueError>}, inputs);
  attempt({"no inputs", true, is<ValueError>}, {});
  inputs.assign(good_.begin(), good_.end() - 1);
  attempt({"an input fewer", !op_.inputs.back().rest, is<ValueError>}, inputs);
  for (std::size_t i = 0; i < good_.size(); ++i) {
    inputs = good_;
    inputs[i] = {};
    attempt({detail::cat("input ", i, " undefined"), !mask_bit(op_.optional_inputs, i)}, inputs);
  }
  std::size_t bytes = 0;
  bool numbers = true;
  for (const AttrDef& attr : op_.attributes) {
    bytes = std::max(bytes, std::size_t{attr.offset} + attr.size);
    numbers = numbers && attr.type == AttrType::number;
  }
  if (bytes == 0) return;
  AnyAttrs attrs = sample_->attrs;
  for (const std::size_t size : {std::size_t{0}, bytes - 1}) {
    attrs.size = size;
    attempt({detail::cat("attributes of ", size, " bytes"), size > 0 || !numbers, is<ValueError>}, good_,
            [&] { call(op_, good_, attrs); });
  }
}

// Each attribute far from what the sample has; an op may take any of these.
void BadCalls::check_attributes() {
  for (const AttrDef& attr : op_.attributes) {
    int number = 0;
    const auto with = [&]<class T>(const T& value) {
      AnyAttrs attrs = sample_->attrs;
      if (attr.offset + sizeof(T) > attrs.size) return;  // left out
      std::memcpy(attrs.bytes.data() + attr.offset, &value, sizeof(T));
      attempt({detail::cat("attribute ", attr.name, ", value ", number++), false,
               is<ValueError, ShapeError, IndexError, DTypeError, DeviceError>},
              good_, [&] { call(op_, good_, attrs); });
    };
    switch (attr.type) {
      case AttrType::flag: with(false), with(true); break;
      case AttrType::int32: with(std::int32_t{-99}), with(std::int32_t{99}); break;
      case AttrType::int64: with(std::int64_t{-99}), with(std::int64_t{0}), with(std::int64_t{99}); break;
      case AttrType::real: with(-1.0), with(2.0), with(std::nan("")); break;
      case AttrType::dims: with(Dims{}), with(Dims{-99}), with(Dims{99, 99}), with(Dims{0, 0, 0}); break;
      case AttrType::dtype: with(DType::u8), with(DType::f16); break;
      case AttrType::device: with(cuda(99)), with(cuda(-9)); break;
      default: break;
    }
  }
}

void BadCalls::check_dtypes() {
  std::size_t same = 0;
  for (std::size_t i = 0; i < good_.size(); ++i) same += compared(i);
  for (std::size_t i = 0; i < good_.size(); ++i)
    for (int t = 0; t < kDTypeCount; ++t) {
      const auto dtype = static_cast<DType>(t);
      if (!good_[i].defined() || good_[i].dtype() == dtype) continue;
      Tensors inputs = good_;
      inputs[i] = good_[i].to(dtype);
      const bool converted =
          op_.promotes || mask_bit(op_.low_inputs, i) || (op_.int_to_float && !is_floating(dtype));
      attempt({detail::cat("input ", i, " in ", dtype),
               compared(i) && !converted && (same > 1 || !(op_.dtypes & dtype_bit(dtype))), is<DTypeError>},
              inputs);
    }
}

void BadCalls::check_devices() {
  if (!cuda_is_available()) return;
  for (std::size_t i = 1; i < good_.size(); ++i) {
    if (!good_[i].defined()) continue;
    Tensors inputs = good_;
    inputs[i] = good_[i].to(device_.is_cpu() ? cuda(0) : cpu);
    attempt({detail::cat("input ", i, " elsewhere"), !mask_bit(op_.free_device_inputs, i), is<DeviceError>},
            inputs);
  }
}

void BadCalls::check_shapes() {
  for (std::size_t i = 0; i < good_.size(); ++i) {
    if (!good_[i].defined()) continue;
    const Tensor& t = good_[i];
    const auto with = [&](int axis, const char* fault, const Tensor& shaped) {
      Tensors inputs = good_;
      inputs[i] = shaped.clone();
      attempt(
          {detail::cat("input ", i, ", axis ", axis, fault), false, is<ShapeError, IndexError, ValueError>},
          inputs);
    };
    for (int axis = 0; axis <= t.dim(); ++axis) {
      if (t.dim() < kMaxRank) with(axis, " put in front", t.unsqueeze(axis));
      if (axis == t.dim() || t.size(axis) == 0) continue;
      with(axis, " dropped", t.select(axis, 0));
      with(axis, " longer", concat({t, t.narrow(axis, 0, 1)}, axis));
      with(axis, " shorter", t.narrow(axis, 1, t.size(axis) - 1));
      with(axis, " of 0", t.narrow(axis, 0, 0));
    }
  }
}

void BadCalls::check_in_place() {
  if (good_.size() > 3) return;
  const auto in_place = [&](const Fault& fault, Tensor self, Tensors inputs) {
    inputs[0] = self;
    attempt(fault, inputs, [&] {
      const EnableGrad guard;
      const AttrsView attrs = sample_->attrs.view();
      if (inputs.size() == 1) dispatch_inplace(op_, self, {}, attrs);
      if (inputs.size() == 2) dispatch_inplace(op_, self, {inputs[1]}, attrs);
      if (inputs.size() == 3) dispatch_inplace(op_, self, {inputs[1], inputs[2]}, attrs);
    });
  };
  const Tensor& x = good_[0];
  in_place({"in place, undefined"}, {}, good_);
  in_place({"in place, expanded", true, is<ShapeError>},
           Tensor::allocate({1}, x.dtype(), device_).zero_().expand({3}), good_);
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    Tensors inputs = good_;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (compared(i)) inputs[i] = inputs[i].to(dtype).clone();
    bool fits = false;
    try {
      const Tensor y = call(op_, inputs, sample_->attrs)[0];
      fits = y.shape() == x.shape() && y.dtype() == dtype;
    } catch (const Error&) {}
    if (!fits && compared(0))
      in_place({detail::cat("in place, ", dtype), true, is<DTypeError, ShapeError>}, inputs[0], inputs);
  }
  if (!is_floating(x.dtype())) return;
  in_place({"in place, a leaf", true, is<AutogradError, DTypeError, ShapeError>},
           x.detach().clone().set_requires_grad(), good_);
  if (!op_.differentiable || !takes_gradient(op_, 0, x)) return;
  const EnableGrad guard;
  in_place({"in place, a view", true, is<AutogradError, DTypeError, ShapeError>},
           x.detach().set_requires_grad().clone().view(x.shape()), good_);
}

void BadCalls::check_backward() {
  const EnableGrad guard;
  Tensors leaves;
  for (std::size_t i = 0; i < good_.size(); ++i) {
    leaves.push_back(good_[i].defined() ? good_[i].detach() : Tensor{});
    if (takes_gradient(op_, i, good_[i])) leaves[i].set_requires_grad();
  }
  const Tensors outputs = call(op_, leaves, sample_->attrs);
  const Tensor& y = outputs[0];
  if (!y.requires_grad()) return;
  const auto from = [&](const Fault& fault, const Tensor& g) {
    attempt(fault, {g}, [&] { y.backward(g, true); });
  };
  const Tensor g = y.detach().clone();
  from({"backward, no cotangent", y.numel() != 1, is<AutogradError>, "backward"}, {});
  from({"backward, a cotangent of another shape", true, is<ShapeError>, "backward"},
       Tensor::allocate({y.numel() + 1}, y.dtype(), device_).zero_());
  from({"backward, a cotangent of another dtype", true, is<DTypeError>, "backward"},
       g.to(g.dtype() == DType::f64 ? DType::f32 : DType::f64));
  y.backward(g);
  // Fails where something was saved.
  from({"backward, a second time", false, is<AutogradError>, "backward"}, g);
}

}  // namespace ct::testing::conformance
