#include "bindings_internal.h"

#include <array>
#include <memory>

#include <nanobind/ndarray.h>

// DLPack, both ways: the memory is shared, and whoever is last gives it back.

namespace ct::python {
namespace {

using Code = nb::dlpack::dtype_code;

struct Element {
  DType dtype;
  Code code;
  std::uint8_t bits;
};
constexpr Element kElements[] = {{f32, Code::Float, 32},   {f64, Code::Float, 64},  {f16, Code::Float, 16},
                                 {bf16, Code::Bfloat, 16}, {i64, Code::Int, 64},    {i32, Code::Int, 32},
                                 {u8, Code::UInt, 8},      {boolean, Code::Bool, 8}};
static_assert(std::size(kElements) == kDTypeCount);

constexpr int kCpu = nb::device::cpu::value, kCuda = nb::device::cuda::value;

// The streams that DLPack's numbers stand for are CUDA's own handles: 1 and 2 are its default streams.
Stream stream_of(Device device, std::int64_t number) {
  return {number == 0 ? nullptr : reinterpret_cast<void*>(static_cast<std::uintptr_t>(number)), device, -1};
}

Device device_of(std::pair<int, int> place) {
  switch (place.first) {
    case kCpu:
    case nb::device::cuda_host::value: return cpu;
    case kCuda:
    case nb::device::cuda_managed::value: return cuda(place.second);
    default:
      detail::fail<DeviceError>("from_dlpack", "the array is on a device of DLPack's kind ", place.first,
                                "; copy it to the CPU (1) or to CUDA (2) first");
  }
}

DType dtype_of_array(const nb::dlpack::dtype& type) {
  for (const Element& e : kElements)
    if (type.lanes == 1 && type.code == static_cast<std::uint8_t>(e.code) && type.bits == e.bits)
      return e.dtype;
  detail::fail<DTypeError>("from_dlpack", "the array has elements of DLPack's code ", int{type.code},
                           " with ", int{type.bits},
                           " bits; convert it to one of float32, float64, float16, bfloat16, int64, "
                           "int32, uint8 or bool first");
}

nb::object to_dlpack(nb::handle self, const nb::object& stream, const nb::object& copy,
                     const nb::kwargs& more) {
  Tensor t = nb::cast<Tensor>(self);
  CT_CHECK(!t.requires_grad(), AutogradError, "__dlpack__",
           "the tensor requires a gradient, which others would not see; hand over x.detach()");
  nb::object owner = nb::borrow(self);
  if (!copy.is_none() && nb::cast<bool>(copy)) owner = nb::cast(t = t.clone());
  const Device device = t.device();
  if (device.is_cuda() && !(nb::isinstance<nb::int_>(stream) && nb::cast<std::int64_t>(stream) == -1)) {
    const std::int64_t number =
        stream.is_none() ? 1 : read_as<std::int64_t>({"__dlpack__", "stream"}, stream);
    Event ready;
    ready.record(current_stream(device));
    ready.wait(stream_of(device, number));
  }
  std::array<std::size_t, kMaxRank> shape{};
  for (int i = 0; i < t.dim(); ++i)
    shape[static_cast<std::size_t>(i)] = static_cast<std::size_t>(t.shape()[i]);
  const Element& e = kElements[static_cast<int>(t.dtype())];
  const nb::ndarray<nb::array_api> array(t.raw_data(), static_cast<std::size_t>(t.dim()), shape.data(), owner,
                                         t.strides().begin(), {static_cast<std::uint8_t>(e.code), e.bits, 1},
                                         device.is_cuda() ? kCuda : kCpu, device.index);
  return nb::cast(array).attr("__dlpack__")(**more);
}

}  // namespace

Tensor from_dlpack(nb::handle source) {
  if (!nb::hasattr(source, "__dlpack__") || !nb::hasattr(source, "__dlpack_device__"))
    Argument{"from_dlpack", "the array"}.refuse(source, "an object with __dlpack__ and __dlpack_device__");
  const Device device = device_of(nb::cast<std::pair<int, int>>(source.attr("__dlpack_device__")()));
  check_device("from_dlpack", device);
  nb::dict arguments;
  if (device.is_cuda()) {  // the array is ready for what this thread queues from now on
    const auto native = reinterpret_cast<std::uintptr_t>(current_stream(device).native);
    arguments["stream"] = native == 0 ? std::uintptr_t{1} : native;
  }
  const auto array = nb::cast<nb::ndarray<>>(source.attr("__dlpack__")(**arguments));
  const DType dtype = dtype_of_array(array.dtype());
  Shape shape;
  Strides strides;
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    shape.push_back(static_cast<std::int64_t>(array.shape(i)));
    strides.push_back(array.stride(i));
  }
  for (const std::int64_t stride : strides)
    CT_CHECK(stride >= 0, ValueError, "from_dlpack", "the array runs backwards along an axis (strides ",
             strides, "); copy it first");
  if (numel(shape) == 0) return empty(shape, {.dtype = dtype, .device = device});
  return from_blob(array.data(), shape, strides, {.dtype = dtype, .device = device},
                   [held = std::make_shared<Kept<nb::ndarray<>>>(array)] {});
}

void bind_exchange(nb::module_& m) {
  m.def("from_dlpack", &from_dlpack, nb::arg("array"),
        "The memory of an array with __dlpack__ (NumPy, PyTorch, CuPy) as a tensor, with its strides; "
        "nothing is copied.\n"
        "Throws DTypeError for elements that there is no dtype for, DeviceError for another device than CPU "
        "and CUDA.");
  auto tensor = nb::borrow<nb::class_<Tensor>>(m.attr("Tensor"));
  tensor.def(
      "__dlpack_device__",
      [](const Tensor& t) { return std::pair<int, int>(t.is_cuda() ? kCuda : kCpu, t.device().index); },
      "DLPack's (kind of device, its number).");
  tensor.def(
      "__dlpack__", &to_dlpack, nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("copy") = nb::none(),
      nb::arg("more"),
      "The memory as a DLPack capsule, which shares it. Throws AutogradError where a gradient is required.");
  using StreamScope = Scope<StreamGuard, Stream>;
  StreamScope::bind(
      m, "stream",
      "with stream(\"cuda:0\", handle): this thread's work goes there; a cudaStream_t as an int.")
      .def(
          "__init__",
          [](StreamScope* self, const std::string& device, std::uintptr_t handle) {
            new (self)
                StreamScope({reinterpret_cast<void*>(handle), parse_device(device), handle == 0 ? 0 : -1});
          },
          nb::arg("device"), nb::arg("handle"));
}

}  // namespace ct::python
