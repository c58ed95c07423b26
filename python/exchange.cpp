#include "bindings_internal.h"

#include <functional>
#include <memory>

#include <nanobind/ndarray.h>

// DLPack, both ways: the memory is shared, and whoever is last gives it back.

namespace ct::python {
namespace {

// DLPack's code, bits and lanes of each dtype, in the order of DType.
constexpr nb::dlpack::dtype kElements[] = {{2, 32, 1}, {2, 64, 1}, {2, 16, 1}, {4, 16, 1},
                                           {0, 64, 1}, {0, 32, 1}, {1, 8, 1},  {6, 8, 1}};
static_assert(std::size(kElements) == kDTypeCount);

constexpr int kCpu = nb::device::cpu::value, kCuda = nb::device::cuda::value;

Device device_of(std::pair<int, int> place) {
  const int kind = place.first;
  if (kind == kCpu || kind == nb::device::cuda_host::value) return cpu;
  if (kind == kCuda || kind == nb::device::cuda_managed::value) return cuda(place.second);
  detail::fail<DeviceError>("from_dlpack", "the array is on a device of DLPack's kind ", kind,
                            "; copy it to the CPU (1) or to CUDA (2) first");
}

// DLPack's structs, as its header has them.
struct ManagedTensor {
  nb::dlpack::dltensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};
struct ManagedTensorVersioned {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedTensorVersioned*);
  std::uint64_t flags;  // the lowest bit: read-only
  nb::dlpack::dltensor tensor;
};
constexpr std::uint32_t kMajor = 1;

// Owner of a capsule's tensor: calls the producer's deleter once, with the interpreter's lock.
using Exported = std::unique_ptr<void, std::function<void(void*)>>;

// Takes the tensor out of the capsule and renames it, which marks it as consumed.
template <class Managed>
Managed* take(nb::handle capsule, const char* name, const char* used, Exported& owner) {
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (managed == nullptr || PyCapsule_SetName(capsule.ptr(), used) != 0) nb::raise_python_error();
  owner = Exported(managed, [](void* pointer) {
    auto* const gone = static_cast<Managed*>(pointer);
    if (gone->deleter != nullptr) gone->deleter(gone);
  });
  return managed;
}

const nb::dlpack::dltensor& open(nb::handle capsule, bool copy, Exported& owner) {
  const char* const name = PyCapsule_CheckExact(capsule.ptr()) ? PyCapsule_GetName(capsule.ptr()) : nullptr;
  const std::string_view kind = name == nullptr ? "" : name;
  if (kind == "dltensor") return take<ManagedTensor>(capsule, name, "used_dltensor", owner)->tensor;
  CT_CHECK(!kind.starts_with("used_"), ValueError, "from_dlpack",
           "the capsule was used before; each gives its memory once: make another one");
  if (kind != "dltensor_versioned")
    Argument{"from_dlpack", "what __dlpack__ gave"}.refuse(capsule, "a capsule named dltensor");
  const auto* const managed = take<ManagedTensorVersioned>(capsule, name, "used_dltensor_versioned", owner);
  CT_CHECK(managed->major == kMajor, ValueError, "from_dlpack", "the capsule is of DLPack ", managed->major,
           "; version ", kMajor, " is wanted");
  CT_CHECK((managed->flags & 1) == 0 || copy, ValueError, "from_dlpack",
           "the array is read-only, and tensors are not; ct.tensor(array) copies it");
  return managed->tensor;
}

DType dtype_of_array(const nb::dlpack::dtype& type) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (type == kElements[i]) return static_cast<DType>(i);
  detail::fail<DTypeError>("from_dlpack", "the array has elements of DLPack's code ", int{type.code},
                           " with ", int{type.bits}, " bits in ", int{type.lanes},
                           " lanes; convert it to one of float32, float64, float16, bfloat16, int64, "
                           "int32, uint8 or bool first");
}

nb::object to_dlpack(nb::handle self, const nb::object& stream, const nb::object& copy,
                     const nb::kwargs& more) {
  Tensor t = nb::cast<Tensor>(self);
  CT_CHECK(!t.requires_grad(), AutogradError, "__dlpack__",
           "the tensor requires a gradient, which others would not see; hand over x.detach()");
  nb::object owner = nb::borrow(self);
  if (read_as<std::optional<bool>>({"__dlpack__", "copy"}, copy).value_or(false))
    owner = nb::cast(t = t.clone());
  const Device device = t.device();
  if (device.is_cuda() && !(nb::isinstance<nb::int_>(stream) && nb::cast<std::int64_t>(stream) == -1)) {
    // DLPack's numbers are CUDA's own handles: 1 and 2 are its default streams.
    const std::int64_t number =
        stream.is_none() ? 1 : read_as<std::int64_t>({"__dlpack__", "stream"}, stream);
    Event ready;
    ready.record(current_stream(device));
    ready.wait({reinterpret_cast<void*>(static_cast<std::uintptr_t>(number)), device, -1});
  }
  const std::vector<std::size_t> shape(t.shape().begin(), t.shape().end());
  const nb::ndarray<nb::array_api> array(t.raw_data(), shape.size(), shape.data(), owner, t.strides().begin(),
                                         kElements[static_cast<int>(t.dtype())],
                                         device.is_cuda() ? kCuda : kCpu, device.index);
  return nb::cast(array).attr("__dlpack__")(**more);
}

// The capsule of an object with __dlpack__, of a version with flags where it knows those.
nb::object ask(nb::handle source) {
  if (!nb::hasattr(source, "__dlpack__") || !nb::hasattr(source, "__dlpack_device__"))
    Argument{"from_dlpack", "the array"}.refuse(source, "an object with __dlpack__ and __dlpack_device__");
  const Device device = device_of(nb::cast<std::pair<int, int>>(source.attr("__dlpack_device__")()));
  check_device("from_dlpack", device);
  nb::dict arguments;
  if (device.is_cuda()) {  // the array is ready for what this thread queues from now on
    const auto native = reinterpret_cast<std::uintptr_t>(current_stream(device).native);
    arguments["stream"] = native == 0 ? std::uintptr_t{1} : native;
  }
  arguments["max_version"] = nb::make_tuple(kMajor, 0);
  try {
    return source.attr("__dlpack__")(**arguments);
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  arguments.attr("pop")("max_version");
  return source.attr("__dlpack__")(**arguments);
}

// Sizes and strides, of an array whose elements are within what an address can reach.
std::pair<Shape, Strides> layout_of(const nb::dlpack::dltensor& array, std::size_t element) {
  CT_CHECK(array.ndim >= 0 && array.ndim <= kMaxRank, ValueError, "from_dlpack", "the array has ", array.ndim,
           " axes; 0 to ", kMaxRank, " are supported");
  CT_CHECK(array.shape != nullptr || array.ndim == 0, ValueError, "from_dlpack", "the shape is null, with ",
           array.ndim, " axes; a size for each is wanted");
  Shape shape;
  double count = static_cast<double>(element), last = count;  // in bytes, of what may be beyond 64 bits
  for (int i = 0; i < array.ndim; ++i) {
    shape.push_back(array.shape[i]);
    CT_CHECK(shape[i] >= 0, ValueError, "from_dlpack", "the shape is ", shape,
             "; sizes from 0 on are wanted");
    count *= static_cast<double>(std::max<std::int64_t>(shape[i], 1));
  }
  CT_CHECK(count < 0x1p62, ValueError, "from_dlpack", "the shape is ", shape,
           ", more elements than memory has");
  Strides strides = contiguous_strides(shape);
  if (array.strides == nullptr || numel(shape) == 0) return {shape, strides};
  for (int i = 0; i < array.ndim; ++i) {
    strides[i] = shape[i] == 1 ? std::max<std::int64_t>(array.strides[i], 0) : array.strides[i];
    CT_CHECK(strides[i] >= 0, ValueError, "from_dlpack", "the array runs backwards along axis ", i,
             "; ct.tensor(array) copies it");
    last +=
        static_cast<double>(shape[i] - 1) * static_cast<double>(strides[i]) * static_cast<double>(element);
  }
  CT_CHECK(last < 0x1p62, ValueError, "from_dlpack", "the strides are ", strides,
           ", which reach beyond all memory");
  return {shape, strides};
}

}  // namespace

Tensor from_dlpack(nb::handle source, bool copy) {
  Exported owner;
  const nb::object capsule = PyCapsule_CheckExact(source.ptr()) ? nb::borrow(source) : ask(source);
  const nb::dlpack::dltensor& array = open(capsule, copy, owner);
  const Device device = device_of({array.device.device_type, array.device.device_id});
  check_device("from_dlpack", device);
  const TensorOptions options{.dtype = dtype_of_array(array.dtype), .device = device};
  const auto [shape, strides] = layout_of(array, size_of(*options.dtype));
  if (numel(shape) == 0) return empty(shape, options);
  CT_CHECK(array.data != nullptr, ValueError, "from_dlpack", "the memory is null, and the shape is ", shape,
           "; the memory of its elements is wanted");
  char* const first = static_cast<char*>(array.data) + array.byte_offset;
  CT_CHECK(reinterpret_cast<std::uintptr_t>(first) % size_of(*options.dtype) == 0, ValueError, "from_dlpack",
           "the elements lie at an address that is no multiple of their size; ct.tensor(array) copies them");
  const Tensor shared = from_blob(first, shape, strides, options,
                                  [held = std::make_shared<Kept<Exported>>(std::move(owner))] {});
  return copy ? shared.clone() : shared;
}

void bind_exchange(nb::module_& m) {
  m.def("from_dlpack", &from_dlpack, nb::arg("array"), nb::arg("copy") = false,
        "The memory of an array with __dlpack__ (NumPy, PyTorch, CuPy), or of a DLPack capsule, as a tensor "
        "with its strides; nothing is copied, unless that is asked for.\n"
        "Throws DTypeError for elements that there is no dtype for, DeviceError for another device than CPU "
        "and CUDA, ValueError for an array that is read-only, runs backwards, or is not as DLPack says.");
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
