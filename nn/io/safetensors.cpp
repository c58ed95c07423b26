#include <cotangent/nn/io/safetensors.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <cotangent/core/memory.h>
#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/io/json_internal.h>
#include <cotangent/nn/io/safetensors_internal.h>

namespace ct::io {
namespace {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the limit of the format's reference implementation
constexpr char kValuesKey[] = "cotangent.values";

const char* format_name(DType t) {
  constexpr const char* names[kDTypeCount] = {"F32", "F64", "F16", "BF16", "I64", "I32", "U8", "BOOL"};
  return names[static_cast<int>(t)];
}

// The bytes of a tensor in row-major order on the host, a piece at a time.
void write_tensor(AtomicFile& file, const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  const std::size_t bytes = static_cast<std::size_t>(dense.nbytes());
  if (dense.is_cpu()) return file.write(dense.raw_data(), bytes);
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  std::vector<char> piece(std::min(bytes, kPiece));
  for (std::size_t at = 0; at < bytes; at += piece.size()) {
    const std::size_t step = std::min(piece.size(), bytes - at);
    copy_bytes(piece.data(), cpu, static_cast<const char*>(dense.raw_data()) + at, dense.device(), step);
    file.write(piece.data(), step);
  }
}

}  // namespace

void save(const std::string& path, const StateDict& dict, const Metadata& metadata) {
  // Elements stay aligned when wide types come first; within a width the dict's order is kept.
  std::vector<std::pair<std::size_t, std::uint64_t>> layout;  // entry, first byte
  const auto entry = [&dict](std::size_t i) -> const StateDict::Entry& {
    return dict.begin()[static_cast<std::ptrdiff_t>(i)];
  };
  for (std::size_t i = 0; i < dict.size(); ++i) layout.emplace_back(i, 0);
  std::ranges::stable_sort(layout, [&](const auto& a, const auto& b) {
    return size_of(entry(a.first).second.dtype()) > size_of(entry(b.first).second.dtype());
  });
  std::vector<std::uint64_t> begins(dict.size());
  std::uint64_t at = 0;
  for (const auto& [i, unused] : layout) {
    begins[i] = at;
    at += static_cast<std::uint64_t>(entry(i).second.nbytes());
  }

  std::string json = "{";
  try {
    std::string texts;
    const auto add = [&](const std::string& key, const std::string& value) {
      texts.append(texts.empty() ? "" : ",").append(json_text(key)).append(":").append(json_text(value));
    };
    for (const auto& [key, value] : metadata) {
      CT_CHECK(key != kValuesKey, IoError, "save", "the metadata has the key '", kValuesKey,
               "', under which load() looks for the values of the dict; choose another key");
      add(key, value);
    }
    if (!dict.values().empty()) add(kValuesKey, values_to_json(dict));
    if (!texts.empty()) json.append(R"("__metadata__":{)").append(texts).append("}");
    for (std::size_t i = 0; i < dict.size(); ++i) {
      const auto& [name, tensor] = entry(i);
      CT_CHECK(name != "__metadata__", IoError, "save",
               "a tensor is named '__metadata__', which the format keeps for "
               "itself; choose another name");
      json.append(json.size() > 1 ? "," : "").append(json_text(name));
      json.append(R"(:{"dtype":")").append(format_name(tensor.dtype())).append(R"(","shape":[)");
      for (int d = 0; d < tensor.dim(); ++d)
        json.append(d > 0 ? "," : "").append(std::to_string(tensor.size(d)));
      const std::uint64_t end = begins[i] + static_cast<std::uint64_t>(tensor.nbytes());
      json.append(R"(],"data_offsets":[)").append(std::to_string(begins[i])).append(",");
      json.append(std::to_string(end)).append("]}");
    }
    json += '}';
  } catch (const nlohmann::json::exception&) {
    ct::detail::fail<IoError>("save", "a name or a metadata text for '", path,
                              "' is not valid UTF-8; the format allows nothing else");
  }
  while (json.size() % 8 != 0) json += ' ';
  CT_CHECK(json.size() <= kMaxHeader, IoError, "save", "the header of '", path, "' would have ", json.size(),
           " bytes; readers accept up to ", kMaxHeader);

  AtomicFile file(path);
  const std::uint64_t length = json.size();
  file.write(&length, sizeof(length));
  file.write(json);
  for (const auto& [i, unused] : layout) write_tensor(file, entry(i).second);
  file.commit();
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
    source.read(data + r.begin, tensor.raw_data(), static_cast<std::size_t>(r.end - r.begin));
    if (r.dtype == DType::boolean) {
      // Any other bit pattern in a bool would be undefined behaviour wherever it is read.
      auto* bytes = static_cast<std::uint8_t*>(tensor.raw_data());
      for (std::int64_t i = 0; i < tensor.numel(); ++i)
        source.check(bytes[i] <= 1, "load", "tensor '", r.name, "' of dtype BOOL has the value ",
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

}  // namespace ct::io
