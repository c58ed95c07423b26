#include <unordered_set>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/nn/capture/program_internal.h>
#include <cotangent/ops/elementwise/binary.h>

// CaptureOptions::check_every.

namespace ct::capture_impl {
namespace {

// In a storage of its own: what is written through it counts as no change.
Tensor bytes_of(const Ref<Storage>& memory) {
  return Tensor::from_storage(Storage::wrap(memory->data(), memory->bytes(), memory->device(), [memory] {}),
                              {static_cast<std::int64_t>(memory->bytes())}, {1}, 0, DType::u8);
}

// Bit by bit: a NaN is itself.
bool same(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const Tensor x = a.contiguous(), y = b.contiguous();
  const auto bytes = [](const Tensor& t) {
    return Tensor::from_storage(
        t.impl()->storage, {t.numel() * static_cast<std::int64_t>(size_of(t.dtype()))}, {1},
        t.storage_offset() * static_cast<std::int64_t>(size_of(t.dtype())), DType::u8);
  };
  return x.shape() == y.shape() && x.dtype() == y.dtype() && equal(bytes(x), bytes(y));
}

}  // namespace

StepCheck::StepCheck(const Recorded& recorded, Device device)
    : draw(default_generator().state()), recorded_(recorded), mailbox_(device) {
  std::unordered_set<const void*> known;  // gradients may lie in one storage
  const auto keep = [&](const Ref<Storage>& storage) {
    if (known.insert(storage->data()).second) memory_.push_back(bytes_of(storage));
  };
  for (const auto& held : recorded.held) keep(held->storage);
  for (const Leaf& leaf : recorded.leaves)
    if (leaf.read) keep(leaf.tensor.grad().impl()->storage);
  for (const Tensor& bytes : memory_) before_.push_back(bytes.clone());
}

void* StepCheck::slot(std::function<std::uint64_t()> value) {
  const auto slot = static_cast<int>(values.size()) + 2;
  values.push_back(value());
  mailbox_.set(slot, values.back());
  mailbox_.send();
  return mailbox_.at(slot);
}

void StepCheck::refuse(const char* op, const char* why) {
  fail<CaptureError>(op, "in a captured step that is checked: ", why);
}

void StepCheck::turn_back(const std::vector<Tensor>& results) {
  const NoGrad off;
  for (const Tensor& t : results) results_.push_back(t.defined() ? t.clone() : Tensor());
  for (const Leaf& leaf : recorded_.leaves) {
    const Tensor grad = leaf.tensor.grad();
    gradients_.push_back(grad.defined() ? grad.detach() : grad);
  }
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    after_.push_back(memory_[i].clone());
    memory_[i].copy_(before_[i]);
  }
}

void StepCheck::compare(std::int64_t replays) const {
  const auto demand = [&](bool good, const std::string& what) {
    CT_CHECK(good, CaptureError, "capture", "replay ", replays,
             " and the plain step from the same state differ in ", what,
             ": the step uses a number or a tensor of the program's that has changed since it was recorded; "
             "make it an "
             "argument, or a tensor that is changed in place");
  };
  for (std::size_t i = 0; i < results_.size(); ++i)
    demand(same(results_[i], recorded_.results[i]), cat("result ", i));
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    demand(same(gradients_[i], recorded_.leaves[i].tensor.grad()),
           cat("the gradient of leaf ", i, ", ", describe(recorded_.leaves[i].tensor)));
  for (std::size_t i = 0; i < memory_.size(); ++i)
    demand(same(memory_[i], after_[i]), cat("a tensor of ", memory_[i].numel(), " bytes that it changes"));
}

}  // namespace ct::capture_impl
