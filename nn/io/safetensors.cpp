#include <cotangent/nn/io/safetensors.h>

#include <algorithm>
#include <bit>
#include <istream>
#include <ostream>
#include <utility>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/io/json.h>
#include <cotangent/nn/io/safetensors_internal.h>

namespace ct::io {
namespace {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the limit of the format's reference implementation
constexpr char kValuesKey[] = "cotangent.values";
constexpr std::string_view kOwnKeys = "cotangent.";

const char* format_name(DType t) {
  constexpr const char* names[kDTypeCount] = {"F32", "F64", "F16", "BF16", "I64", "I32", "U8", "BOOL"};
  return names[static_cast<int>(t)];
}

// Hands the bytes of a tensor to sink(from, bytes) in row-major order on the host, a piece at a time. Returns their
// checksum.
template <class Sink>
std::uint32_t write_tensor(const Tensor& tensor, const Sink& sink) {
  const Tensor dense = tensor.contiguous();
  const std::size_t bytes = static_cast<std::size_t>(dense.nbytes());
  std::uint32_t sum = 0;
  // Small enough to stay in the caches between the checksum and the copy to the system.
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  std::vector<char> piece(dense.is_cpu() ? 0 : std::min(bytes, kPiece));
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t step = std::min(kPiece, bytes - at);
    const char* from = static_cast<const char*>(dense.raw_data()) + at;
    if (!dense.is_cpu()) {
      copy_bytes(piece.data(), cpu, from, dense.device(), step);
      from = piece.data();
    }
    sum = crc32_parallel(sum, from, step);
    sink(from, step);
  }
  return sum;
}

// A file before its checksums are known.
class Layout {
 public:
  Layout(const StateDict& dict, const Metadata& metadata, const std::string& name);

  const std::string& json() const { return json_; }
  std::uint64_t length() const { return json_.size(); }
  /// Hands all tensors to the sink, in the order in which they stand in the file, and completes the header.
  template <class Sink>
  void write(const Sink& sink) {
    const std::size_t first_sum = json_.find(kTensorSums) + sizeof kTensorSums + 2;
    for (const std::size_t i : order_)
      json_.replace(first_sum + i * (kSumDigits + 1), kSumDigits,
                    checksum_text(write_tensor(entry(i).second, sink)));
    json_.replace(kSumStart.size(), kSumDigits, checksum_text(header_checksum(json_)));
  }
  /// The whole file into something that is written from the front to the end: each tensor is gone through twice.
  template <class Sink>
  void write_forward(const Sink& sink) {
    write([](const char*, std::size_t) {});
    const std::uint64_t bytes = length();
    sink(reinterpret_cast<const char*>(&bytes), sizeof bytes);
    sink(json_.data(), json_.size());
    write(sink);
  }
  std::uint64_t bytes() const { return sizeof(std::uint64_t) + json_.size() + data_bytes_; }

 private:
  const StateDict::Entry& entry(std::size_t i) const { return dict_.begin()[static_cast<std::ptrdiff_t>(i)]; }

  const StateDict& dict_;
  std::vector<std::size_t> order_;
  std::uint64_t data_bytes_ = 0;
  std::string json_;
};

Layout::Layout(const StateDict& dict, const Metadata& metadata, const std::string& name) : dict_(dict) {
  // Elements stay aligned when wide types come first; within a width the dict's order is kept.
  for (std::size_t i = 0; i < dict.size(); ++i) order_.push_back(i);
  std::ranges::stable_sort(order_, [&](std::size_t a, std::size_t b) {
    return size_of(entry(a).second.dtype()) > size_of(entry(b).second.dtype());
  });
  std::vector<std::uint64_t> begins(dict.size());
  for (const std::size_t i : order_) {
    begins[i] = data_bytes_;
    data_bytes_ += static_cast<std::uint64_t>(entry(i).second.nbytes());
  }

  std::string sums;
  for (std::size_t i = 0; i < dict.size(); ++i) sums.append(i ? " " : "").append(checksum_text(0));
  std::vector<Json::Member> text = {{kHeaderSum, checksum_text(0)}, {kTensorSums, sums}};
  for (const auto& [key, value] : metadata) {
    CT_CHECK(!key.starts_with(kOwnKeys), IoError, "save", "the metadata has the key ", printable(key), "; '",
             kOwnKeys, "' begins those that this library writes itself: choose another key");
    text.emplace_back(key, value);
  }
  if (!dict.values().empty()) text.emplace_back(kValuesKey, values_to_json(dict));
  std::vector<Json::Member> members;
  members.emplace_back("__metadata__", Json::object(std::move(text)));
  for (std::size_t i = 0; i < dict.size(); ++i) {
    const auto& [tensor_name, tensor] = entry(i);
    CT_CHECK(tensor_name != "__metadata__", IoError, "save",
             "a tensor is named '__metadata__', which the format keeps for "
             "itself; choose another name");
    members.emplace_back(
        tensor_name,
        Json::object({{"dtype", format_name(tensor.dtype())},
                      {"shape", Json::List(tensor.shape().begin(), tensor.shape().end())},
                      {"data_offsets",
                       Json::List{begins[i], begins[i] + static_cast<std::uint64_t>(tensor.nbytes())}}}));
  }
  json_ = Json::object(std::move(members)).dump("save");
  while (json_.size() % 8 != 0) json_ += ' ';
  CT_CHECK(json_.size() <= kMaxHeader, IoError, "save", "the header of ", printable_path(name),
           " would have ", json_.size(), " bytes; readers accept up to ", kMaxHeader);
}

}  // namespace

void save(const std::string& path, const StateDict& dict, const Metadata& metadata) {
  Layout layout(dict, metadata, path);
  AtomicFile file(path);
  const std::uint64_t length = layout.length();
  file.write(&length, sizeof(length));
  file.write(layout.json());
  // The checksums of tensors are known once these are written: behind the header's, which covers them.
  layout.write([&](const char* from, std::size_t bytes) { file.write(from, bytes); });
  file.rewrite(sizeof(length), layout.json().data(), layout.json().size());
  file.commit();
}

void save(std::ostream& out, const StateDict& dict, const Metadata& metadata) {
  Layout layout(dict, metadata, "stream");
  layout.write_forward(
      [&](const char* from, std::size_t bytes) { out.write(from, static_cast<std::streamsize>(bytes)); });
  CT_CHECK(out.flush(), IoError, "save", "the stream failed; open it in binary mode, with room for ",
           layout.bytes(), " bytes");
}

std::vector<std::byte> save_to_memory(const StateDict& dict, const Metadata& metadata) {
  Layout layout(dict, metadata, "memory");
  std::vector<std::byte> bytes;
  ct::detail::reserve("save_to_memory", bytes, static_cast<std::int64_t>(layout.bytes()));
  layout.write_forward([&](const char* from, std::size_t count) {
    const auto* begin = reinterpret_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), begin, begin + count);
  });
  return bytes;
}

StateDict dict_of_tensor(const Tensor& tensor) {
  StateDict dict;
  dict.set("tensor", tensor);
  return dict;
}

Tensor only_tensor(const StateDict& dict) {
  CT_CHECK(dict.size() == 1, IoError, "load_tensor", "found ", dict.size(),
           " tensors; one is wanted: load() gives all of them by name");
  return dict.begin()->second;
}

void read_tensor(const ByteSource& source, std::uint64_t data, const TensorRecord& r, void* to) {
  const auto bytes = static_cast<std::size_t>(r.end - r.begin);
  std::vector<std::byte> stored(r.foreign ? bytes : 0);
  void* const raw = r.foreign ? stored.data() : to;
  source.read(data + r.begin, raw, bytes);
  if (r.foreign) r.foreign->widen(stored.data(), static_cast<std::int64_t>(bytes / r.foreign->bytes), to);
  if (!r.crc) return;
  const std::uint32_t sum = crc32_parallel(0, raw, bytes);
  source.check(sum == *r.crc, "load", "tensor ", printable(r.name), " has the checksum ", checksum_text(sum),
               ", and ", checksum_text(*r.crc),
               " was saved; its data is damaged: fetch or save the file again");
}

SafetensorsStart read_safetensors_header(const ByteSource& source) {
  source.check(source.size() >= 8, "load", "has ", source.size(),
               " bytes; a safetensors file has at least 8: it is truncated or another kind of file");
  std::uint64_t length = 0;
  source.read(0, &length, sizeof(length));
  source.check(length <= kMaxHeader && length <= source.size() - 8, "load", "announces a header of ", length,
               " bytes in a file of ", source.size(), "; it is truncated or not a safetensors file");
  std::string json(static_cast<std::size_t>(length), '\0');
  source.read(8, json.data(), json.size());
  return {8 + length, parse_safetensors_header(source, json, source.size() - 8 - length)};
}

SafetensorsFile load_safetensors(const ByteSource& source) {
  auto [data, header] = read_safetensors_header(source);
  SafetensorsFile file;
  for (const TensorRecord& r : header.records) {
    Tensor tensor = Tensor::allocate(r.shape, r.dtype, cpu);
    read_tensor(source, data, r, tensor.raw_data());
    if (r.dtype == DType::boolean) {
      // Any other bit pattern in a bool would be undefined behaviour wherever it is read.
      auto* bytes = static_cast<std::uint8_t*>(tensor.raw_data());
      for (std::int64_t i = 0; i < tensor.numel(); ++i)
        source.check(bytes[i] <= 1, "load", "tensor ", printable(r.name), " of dtype BOOL has the value ",
                     int{bytes[i]}, "; only 0 and 1 are allowed");
    }
    file.tensors.set(r.name, std::move(tensor));
  }
  if (const auto values = header.metadata.find(kValuesKey); values != header.metadata.end()) {
    values_from_json(source, values->second, file.tensors);
    header.metadata.erase(values);
  }
  file.metadata = std::move(header.metadata);
  return file;
}

SafetensorsFile load_file(const std::string& path) { return load_safetensors(*open_file("load", path)); }

StateDict load(const std::string& path) { return load_file(path).tensors; }

StateDict load(std::span<const std::byte> bytes) {
  return load_safetensors(*open_memory(bytes, "memory")).tensors;
}

StateDict load(std::istream& in) {
  std::string bytes;
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  do {  // by what is there, whatever it announces
    const std::size_t before = bytes.size();
    bytes.resize(before + kPiece);
    in.read(bytes.data() + before, kPiece);
    bytes.resize(before + static_cast<std::size_t>(in.gcount()));
  } while (in.good());
  CT_CHECK(in.eof() && !in.bad(), IoError, "load", "the stream failed after ", bytes.size(),
           " bytes; open it in binary mode");
  return load_safetensors(*open_memory(std::as_bytes(std::span(bytes)), "stream")).tensors;
}

}  // namespace ct::io
