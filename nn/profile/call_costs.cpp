#include <algorithm>
#include <cstring>

#include <cotangent/core/op/op_def.h>
#include <cotangent/nn/profile/profile_internal.h>

namespace ct::profile_impl {
namespace {

// Flags: it is there; a gradient that is a cotangent, so nothing was written; a gradient that was added to a sum.
constexpr std::int64_t kDefined = 1, kHandedOn = 2, kAccumulates = 4;

// A tensor as it is noted: flags, dtype, rank and the axes that are expanded in one word, then address and sizes.
struct Noted {
  TensorMeta meta{{0}, DType::f32, {}};
  std::int64_t flags = 0, address = 0;
  double bytes = 0;  // that it covers: an expanded axis has one element
};

class Reader {
 public:
  explicit Reader(const std::int64_t* words) : at_(words) {}
  std::int64_t word() { return *at_++; }
  const std::int64_t* skip(std::int64_t n) { return std::exchange(at_, at_ + n); }
  std::vector<Noted> list() {
    std::vector<Noted> tensors(static_cast<std::size_t>(word()));
    for (Noted& t : tensors) {
      const std::int64_t head = word();
      t.flags = head & 0xff;
      if (!(t.flags & kDefined)) continue;
      t.address = word();
      t.meta.dtype = static_cast<DType>(head >> 8 & 0xff);
      t.bytes = static_cast<double>(size_of(t.meta.dtype));
      t.meta.shape = {};
      for (std::int64_t i = 0; i < (head >> 16 & 0xff); ++i) {
        t.meta.shape.push_back(word());
        if (t.meta.shape.back() == 0 || !(head >> (24 + i) & 1))
          t.bytes *= static_cast<double>(t.meta.shape.back());
      }
    }
    return tensors;
  }

 private:
  const std::int64_t* at_;
};

std::vector<TensorMeta> metas_of(const std::vector<Noted>& tensors) {
  std::vector<TensorMeta> metas;
  for (const Noted& t : tensors) metas.push_back(t.meta);
  return metas;
}

// Bytes that a kernel reads at least: a tensor that it is given twice counts once.
double bytes_read(std::vector<Noted> tensors) {
  double bytes = 0;
  for (auto t = tensors.begin(); t != tensors.end(); ++t) {
    const bool again = std::any_of(tensors.begin(), t, [&](const Noted& other) {
      return other.address == t->address && other.meta.shape == t->meta.shape;
    });
    if (!again) bytes += t->bytes;
  }
  return bytes;
}

}  // namespace

void CallCosts::note(const Tensor& t, std::int64_t flags) {
  std::int64_t words[2 + kMaxRank] = {0, 0};
  int count = 1;
  if (t.defined()) {
    words[0] = flags | kDefined | static_cast<std::int64_t>(t.dtype()) << 8 |
               static_cast<std::int64_t>(t.dim()) << 16;
    words[1] = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(t.raw_data()));
    count = 2 + t.dim();
    for (int i = 0; i < t.dim(); ++i) {
      words[2 + i] = t.shape()[i];
      if (t.strides()[i] == 0) words[0] |= std::int64_t{1} << (24 + i);
    }
  }
  words_.insert(words_.end(), words, words + count);
}

std::size_t CallCosts::note(const KernelCall& call) {
  const std::size_t place = words_.size();
  const AttrsView attrs = call.attrs();
  const std::size_t attr_words = (attrs.size + sizeof(std::int64_t) - 1) / sizeof(std::int64_t);
  words_.push_back(call.backward != nullptr);
  words_.push_back(static_cast<std::int64_t>(attr_words));
  words_.resize(words_.size() + attr_words);
  if (attrs.size > 0) std::memcpy(&words_[place + 2], attrs.data, attrs.size);
  words_[place + 1] |= static_cast<std::int64_t>(attrs.size) << 32;
  const auto count = [&](std::size_t n) { words_.push_back(static_cast<std::int64_t>(n)); };
  if (call.forward) {
    count(call.forward->inputs.size());
    for (const Tensor* t : call.forward->inputs) note(*t);
    count(call.forward->outputs.size());
    for (const Tensor& t : call.forward->outputs) note(t);
    return place;
  }
  const Backward& b = *call.backward;
  for (const auto& list : {b.grads, b.saved_inputs, b.saved_outputs}) {
    count(list.size());
    for (const Tensor& t : list) note(t);
  }
  count(b.input_metas.size());
  for (const TensorMeta& meta : b.input_metas) {
    words_.push_back(kDefined | static_cast<std::int64_t>(meta.dtype) << 8 |
                     static_cast<std::int64_t>(meta.shape.size()) << 16);
    words_.push_back(0);
    for (const std::int64_t size : meta.shape) words_.push_back(size);
  }
  count(b.grad_inputs.size());
  for (std::size_t i = 0; i < b.grad_inputs.size(); ++i) {
    const Tensor& g = b.grad_inputs[i];
    const auto is_of = [&](const Tensor& from) {
      return from.defined() && from.impl()->storage.get() == g.impl()->storage.get();
    };
    const bool handed_on = g.defined() && std::ranges::any_of(b.grads, is_of);
    note(g, (handed_on ? kHandedOn : 0) | (b.accumulate(static_cast<int>(i)) ? kAccumulates : 0));
  }
  return place;
}

Cost CallCosts::cost(const OpDef& op, std::size_t place) const {
  Reader reader(&words_[place]);
  const bool backward = reader.word() != 0;
  const std::int64_t head = reader.word();
  const AttrsView attrs(reader.skip(head & 0xffffffff), static_cast<std::size_t>(head >> 32));
  if (!backward) {
    const std::vector<Noted> in = reader.list(), out = reader.list();
    Cost cost = cost_of(op, metas_of(in), metas_of(out), attrs);
    double moved = bytes_read(in);
    for (const Noted& t : out) moved += t.bytes;
    cost.bytes = std::min(cost.bytes, moved);
    return cost;
  }
  std::vector<Noted> reads = reader.list();
  const std::vector<TensorMeta> outputs = metas_of(reads);
  const std::vector<Noted> saved = reader.list(), saved_outputs = reader.list(), inputs = reader.list();
  double written = 0;
  int factors = 0;
  for (const Noted& g : reader.list()) {
    if (!(g.flags & kDefined) || g.flags & kHandedOn) continue;
    written += g.bytes * (g.flags & kAccumulates ? 2 : 1);
    if (g.meta.shape.size() >= 2) ++factors;
  }
  if (written == 0) return {};
  // A gradient that was made in forward reads no input.
  const bool computed = std::ranges::any_of(saved, [](const Noted& t) { return t.flags & kDefined; });
  const Cost cost = cost_of(op, metas_of(inputs), outputs, attrs);
  reads.insert(reads.end(), saved.begin(), saved.end());
  reads.insert(reads.end(), saved_outputs.begin(), saved_outputs.end());
  return {computed ? cost.flops * std::min(factors, 2) : 0, bytes_read(reads) + written};
}

}  // namespace ct::profile_impl
