#include <cotangent/core/op/op_def.h>

#include <algorithm>
#include <cstring>

#include <cotangent/core/base/philox.h>

namespace ct {
namespace {

template <class T>
T read(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Word `index` of a list of words, or its number where the list is too short.
std::string choice(std::string_view words, std::uint64_t index) {
  for (std::uint64_t k = 0; !words.empty(); ++k) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (k == index) return std::string(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return detail::cat(index);
}

std::string value_text(const AttrDef& attr, const std::byte* at) {
  switch (attr.type) {
    case AttrType::flag: return read<bool>(at) ? "true" : "false";
    case AttrType::int32: return detail::cat(read<std::int32_t>(at));
    case AttrType::int64: return detail::cat(read<std::int64_t>(at));
    case AttrType::uint32: return detail::cat(read<std::uint32_t>(at));
    case AttrType::uint64: return detail::cat(read<std::uint64_t>(at));
    case AttrType::real: return detail::cat(read<double>(at));
    case AttrType::number: return detail::cat(read<Scalar>(at));
    case AttrType::dims: return to_string(read<Dims>(at));
    case AttrType::dtype: return std::string(name(read<DType>(at)));
    case AttrType::device: return to_string(read<Device>(at));
    case AttrType::choice: {
      std::uint64_t index = 0;
      std::memcpy(&index, at, attr.size);  // little-endian, as all that this library is built for
      return choice(attr.choices, index);
    }
    case AttrType::draw: {
      const auto draw = read<GeneratorState>(at);
      return draw.live ? detail::cat("offset ", draw.offset, " from a recorded step's")
                       : detail::cat("seed ", draw.seed, ", offset ", draw.offset);
    }
  }
  return {};
}

template <class Record>
std::string record_name(std::span<const Record> records, std::size_t k) {
  if (records.empty()) return detail::cat(k);
  const Record& record = records[std::min(k, records.size() - 1)];
  if (!record.rest) return record.name;
  return detail::cat(record.name, '[', k - (records.size() - 1), ']');
}

}  // namespace

void Infer::fail_too_many() const {
  detail::fail<Error>(op.name, "its shape rule declares more than ", kMaxOutputs,
                      " outputs; give what belongs together as one tensor");
}

std::string input_name(const OpDef& op, std::size_t i) {
  const std::size_t last = op.inputs.size() - 1;
  if (const std::size_t turn = op.inputs.empty() ? 0 : op.inputs[last].turn; turn > 0 && i >= last)
    return detail::cat(input_record(op, i).name, '[', 1 + (i - last) / turn, ']');
  return record_name(op.inputs, i);
}
std::string output_name(const OpDef& op, std::size_t k) { return record_name(op.outputs, k); }

double bytes_of(std::span<const TensorMeta> tensors) {
  double bytes = 0;
  for (const TensorMeta& t : tensors)
    bytes += static_cast<double>(numel(t.shape)) * static_cast<double>(size_of(t.dtype));
  return bytes;
}

Cost cost_of(const OpDef& op, std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs,
             AttrsView attrs) {
  if (op.view) return {};
  Cost cost;
  if (op.cost) {
    cost = op.cost(inputs, outputs, attrs);
  } else {
    for (const auto& list : {inputs, outputs})
      for (const TensorMeta& t : list)
        cost.flops = std::max(cost.flops, op.flops_each * static_cast<double>(numel(t.shape)));
  }
  if (cost.bytes == 0) cost.bytes = bytes_of(inputs) + bytes_of(outputs);
  return cost;
}

Cost gather_cost(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs, AttrsView) {
  return {.bytes = bytes_of(inputs.subspan(1)) + 2 * bytes_of(outputs)};
}

std::string describe_attributes(const OpDef& op, AttrsView attrs) {
  std::string text;
  for (const AttrDef& attr : op.attributes) {
    if (std::size_t{attr.offset} + attr.size > attrs.size) continue;  // left out by the caller: its default
    if (!text.empty()) text.append(", ");
    text.append(attr.name).append(" = ").append(
        value_text(attr, static_cast<const std::byte*>(attrs.data) + attr.offset));
  }
  return text;
}

}  // namespace ct
