#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/base/function_ref.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/data/dataset.h>
#include <cotangent/nn/data/sampler.h>
#include <cotangent/nn/state_dict.h>

namespace ct::data {

struct LoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;
  /// Sampler that chooses an epoch's examples and their order, in place of each once: sampler.h has some.
  std::optional<AnySampler> sampler = std::nullopt;
  /// Leaves out a last batch that is not full.
  bool drop_last = false;
  /// Ranks that train together, and which of them this is: each takes its part of every batch, of which batch_size counts all
  /// parts. Order and state are those of one rank, whatever the number of ranks: another number goes on with the same batches. A
  /// batch that is no multiple of num_replicas is filled up with its own first examples. For every dataset and sampler, also an
  /// endless one; of a DistributedSampler the loader has one rank's part already.
  std::int64_t num_replicas = 1, rank = 0;
  /// Threads that make batches ahead, or as many of them as the system gives. 0: batches are made by the
  /// loop's own thread.
  int workers = 0;
  /// Seed of the order; without one it is drawn from the default generator, if there is something to shuffle.
  std::optional<std::uint64_t> seed = std::nullopt;
  /// Device of the batches. For a GPU they are assembled in pinned memory and copied on a stream of
  /// their own, while earlier batches are computed on. A dataset whose tensors are on a GPU is loaded with
  /// that GPU here: its rows are gathered on the same stream.
  Device prefetch = cpu;
  /// Number of batches made ahead of the loop, with workers or a GPU.
  int prefetch_batches = 2;
};

namespace detail {

class EpochRun;

/// The part of DataLoader that does not depend on the type of a batch.
class CT_API LoaderCore {
 public:
  using Fetch = std::function<std::vector<Tensor>(std::span<const std::int64_t>)>;
  LoaderCore(std::int64_t examples, Fetch fetch, const LoaderOptions& options);
  ~LoaderCore();

  std::int64_t batch_count() const;
  void begin();
  /// The next batch of the epoch; false at its end.
  bool next(std::vector<Tensor>& batch);
  /// Ends the run of this loop.
  void end();
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);
  void check_state_dict(const StateDict& state) const;
  std::int64_t epoch() const { return run_ || resumed_ || !left_ ? epoch_ : epoch_ + 1; }
  std::int64_t position() const { return run_ || resumed_ ? position_ : 0; }
  const LoaderOptions& options() const { return options_; }

 private:
  std::vector<std::int64_t> order(std::int64_t epoch) const;
  std::int64_t replicas() const { return options_.sampler ? options_.sampler->num_replicas() : 1; }

  std::int64_t dataset_size_, examples_;  // of an epoch
  Fetch fetch_;
  LoaderOptions options_;
  std::uint64_t seed_ = 0;
  std::int64_t epoch_ = 0, position_ = 0;
  bool left_ = false;     // the last loop ended before its epoch
  bool resumed_ = false;  // epoch_ and position_ were loaded and wait for the next loop
  std::shared_ptr<EpochRun> run_;
};

/// A batch of examples, each of which example(i) gives.
CT_API std::vector<Tensor> stack_batch(std::span<const std::int64_t> indices,
                                       FunctionRef<std::vector<Tensor>(std::int64_t i)> example);

}  // namespace detail

/// Batches of a dataset, made anew in every loop over it:
///
///     ct::data::DataLoader batches(images, {.batch_size = 128, .shuffle = true, .workers = 2});
///     for (auto [x, y] : batches) ...
///
/// Each loop is an epoch. With `shuffle`, the order of the examples is a function of the seed and the number
/// of the epoch alone: the number of workers and what was loaded before do not matter. An exception of the
/// dataset, in whichever thread, is rethrown in the loop when its batch is due.
///
/// state_dict() inside a loop remembers the batches handed out so far: load_state_dict() into a new loader
/// and loop, and the next batch comes. Outside, it remembers the next epoch; a loop that was left with
/// `break` counts as an epoch.
///
/// The loader keeps a copy of the dataset (datasets are handles, or cheap). One loop at a time.
template <class D>
class DataLoader {
  static_assert(Dataset<D>,
                "a DataLoader wants a dataset that has std::int64_t size() const, and get(std::int64_t) or "
                "get_batch(std::span<const std::int64_t>) const, which give a tensor or several");

 public:
  /// Throws ValueError for a batch size below 1, a number of prefetched batches outside [1, 65536], or of
  /// workers outside [0, 1024], for `shuffle` beside a sampler, and for a batch_size that is no multiple of num_replicas, or a
  /// rank outside [0, num_replicas). The loop throws IndexError if the sampler gives a number
  /// that the dataset does not have, ValueError if it gives more or fewer than its size(), Error if a worker can't be started,
  /// OutOfMemoryError if the order or a batch does not fit into memory. Using a loader that was moved from throws Error.
  explicit DataLoader(D dataset, LoaderOptions options = {})
      : dataset_(std::make_shared<const D>(std::move(dataset))),
        core_(std::make_shared<detail::LoaderCore>(dataset_->size(), fetcher(dataset_), options)) {}

  /// Batches that `collate` makes of lists of examples (CollateDataset): of examples of different lengths, say. With several
  /// workers it is called by several threads at once.
  template <class Examples, class F>
  requires std::same_as<D, CollateDataset<Examples, F>> DataLoader(Examples dataset, LoaderOptions options,
                                                                   F collate)
      : DataLoader(D(std::move(dataset), std::move(collate)), std::move(options)) {}

  /// Batches of an epoch.
  std::int64_t size() const { return core().batch_count(); }
  const D& dataset() const {
    core();
    return *dataset_;
  }
  const LoaderOptions& options() const { return core().options(); }
  /// The number of the epoch that is running, or comes next; 0 at first.
  std::int64_t epoch() const { return core().epoch(); }
  /// Batches of it handed out so far.
  std::int64_t position() const { return core().position(); }

  StateDict state_dict() const { return core().state_dict(); }
  /// Throws ValueError if the state is that of another number of examples, batch size or kind of order.
  void load_state_dict(const StateDict& state) { core().load_state_dict(state); }
  void check_state_dict(const StateDict& state) const { core().check_state_dict(state); }

  using Fetched = decltype([](const D& d) {
    if constexpr (BatchDataset<D>) {
      return d.get_batch(std::span<const std::int64_t>());
    } else {
      return d.get(0);
    }
  }(std::declval<const D&>()));
  using Batch = std::remove_cvref_t<Fetched>;

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    Batch& operator*() const { return *batch_; }
    Batch* operator->() const { return &*batch_; }
    Iterator& operator++() {
      advance();
      return *this;
    }
    void operator++(int) { advance(); }
    bool operator==(std::default_sentinel_t) const { return !batch_; }
    Iterator(Iterator&&) noexcept = default;
    Iterator& operator=(Iterator&&) = delete;
    ~Iterator() {
      if (core_) core_->end();
    }

   private:
    friend class DataLoader;
    explicit Iterator(std::shared_ptr<detail::LoaderCore> core) : core_(std::move(core)) {
      core_->begin();
      try {
        advance();
      } catch (...) {
        core_->end();
        throw;
      }
    }
    void advance() {
      check_there(core_ != nullptr);
      batch_.reset();  // its memory is free for the next one
      std::vector<Tensor> list;
      if (core_->next(list)) batch_ = detail::TensorsOf<Batch>::batch(std::move(list));
    }
    std::shared_ptr<detail::LoaderCore> core_;
    mutable std::optional<Batch> batch_;
  };

  Iterator begin() {
    core();
    return Iterator(core_);
  }
  std::default_sentinel_t end() { return {}; }

 private:
  static void check_there(bool there) {
    CT_CHECK(there, Error, "DataLoader",
             "the loader is empty because it was moved from; use the one it was moved to");
  }
  detail::LoaderCore& core() const {
    check_there(core_ != nullptr);
    return *core_;
  }
  static detail::LoaderCore::Fetch fetcher(std::shared_ptr<const D> dataset) {
    return [dataset](std::span<const std::int64_t> indices) {
      if constexpr (BatchDataset<D>) {
        return detail::TensorsOf<Batch>::list(dataset->get_batch(indices));
      } else {
        return detail::stack_batch(
            indices, [&](std::int64_t i) { return detail::TensorsOf<Batch>::list(dataset->get(i)); });
      }
    };
  }

  std::shared_ptr<const D> dataset_;
  std::shared_ptr<detail::LoaderCore> core_;
};
template <class Examples, class F>
DataLoader(Examples, LoaderOptions, F) -> DataLoader<CollateDataset<Examples, F>>;

}  // namespace ct::data
