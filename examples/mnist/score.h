#pragma once

#include <cotangent/cotangent.h>

#include <cstdint>

/// Means over images.
struct Score {
  double loss = 0, accuracy = 0;
};

/// Sums of losses and hits, kept on the device: reading them waits for it, adding to them does not.
class Tally {
 public:
  explicit Tally(ct::Device device)
      : loss_(ct::zeros({}, {.device = device})), hits_(ct::zeros({}, {.device = device})) {}
  void add(const ct::Tensor& loss, const ct::Tensor& logits, const ct::Tensor& labels) {
    ct::NoGrad guard;
    const std::int64_t n = labels.numel();
    loss_.add_(loss.detach() * static_cast<double>(n));
    hits_.add_(ct::eq(ct::argmax(logits.detach(), -1), labels).to(ct::f32).sum());
    count_ += n;
  }
  std::int64_t count() const { return count_; }
  /// The sums of all ranks' tallies. Collective.
  Tally of_all(const ct::dist::Group& ranks) const {
    Tally all = *this;
    all.loss_ = ct::dist::all_reduce(loss_, ranks), all.hits_ = ct::dist::all_reduce(hits_, ranks);
    all.count_ = static_cast<std::int64_t>(
        ct::dist::all_reduce(ct::full({}, static_cast<double>(count_), {.dtype = ct::f64}), ranks).item());
    return all;
  }
  /// State for a checkpoint in the middle of an epoch, so that the epoch's figures stay whole.
  void save(ct::StateDict& to) const {
    to.set_value("tally.loss", loss_.item());
    to.set_value("tally.hits", hits_.item());
    to.set_value("tally.count", count_);
  }
  void load(const ct::StateDict& from) {
    loss_.fill_(from.value<double>("tally.loss"));
    hits_.fill_(from.value<double>("tally.hits"));
    count_ = from.value<std::int64_t>("tally.count");
  }
  Score score() const {
    return {loss_.item() / static_cast<double>(count_), hits_.item() / static_cast<double>(count_)};
  }

 private:
  ct::Tensor loss_, hits_;
  std::int64_t count_ = 0;
};

/// The loss and accuracy over all that `loader` gives; of several ranks, each computes some of the batches.
inline Score evaluate(const ct::nn::Sequential& model, ct::data::DataLoader<ct::data::ImageDataset>& loader,
                      ct::Device device, const ct::dist::Group& ranks = {}) {
  const ct::NoGrad guard;
  Tally tally(device);
  for (std::int64_t i = 0; auto [x, y] : loader) {
    if (i++ % ranks.size() != ranks.rank()) continue;
    const ct::Tensor logits = model.forward(x);
    tally.add(ct::cross_entropy(logits, y), logits, y);
  }
  return tally.of_all(ranks).score();
}
