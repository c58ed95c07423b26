#include <cotangent/nn/data/loader.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/error.h>
#include <cotangent/core/base/philox.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/nn/data/loader_internal.h>

namespace ct::data::detail {
namespace {

// Keeps the order of a loader apart from the draws of a default generator with the same seed.
constexpr std::uint64_t kOrderStream = 0x0DE2C0DE5A17ull;

constexpr int kMostAhead = 1 << 16;  // batches

}  // namespace

/// The stream of one loop's copies. Streams of loops that have ended are reused: the memory that the
/// allocator keeps belongs to a stream, and with a new stream each epoch and each evaluation would ask the
/// system for its own.
class UploadStream {
 public:
  explicit UploadStream(Device device) {
    std::lock_guard lock(idle().mutex);
    std::vector<Stream>& streams = idle().streams;
    const auto found = std::ranges::find(streams, device, &Stream::device);
    if (found == streams.end()) {
      streams.reserve(idle().made + 1);  // for all to come back: a destructor must not fail
      stream_ = new_stream(device);
      ++idle().made;
    } else {
      stream_ = *found;
      streams.erase(found);
    }
  }
  ~UploadStream() {
    std::lock_guard lock(idle().mutex);
    idle().streams.push_back(stream_);
  }
  UploadStream(const UploadStream&) = delete;
  UploadStream& operator=(const UploadStream&) = delete;
  const Stream& operator*() const { return stream_; }

 private:
  struct Idle {
    std::mutex mutex;
    std::vector<Stream> streams;
    std::size_t made = 0;
  };
  static Idle& idle() {
    static Idle* const idle = new Idle;  // loops may end in static destructors
    return *idle;
  }
  Stream stream_;
};

// The shuffle of Fisher and Yates with draws by position.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order;
  ct::detail::reserve("DataLoader", order, count);
  order.resize(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  const GeneratorState draw{seed ^ kOrderStream, static_cast<std::uint64_t>(epoch)};
  for (std::int64_t i = count - 1; i > 0; --i) {
    const std::int64_t j = philox_integer(draw, static_cast<std::uint64_t>(i), 0, i + 1);
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(j)]);
  }
  return order;
}

/// One pass: batches [first, last) of an order, made ahead in a ring of slots by workers or, without any, by
/// the thread that asks.
class EpochRun {
 public:
  EpochRun(const LoaderCore::Fetch& fetch, const LoaderOptions& options, std::vector<std::int64_t> order,
           std::int64_t examples, std::int64_t first, std::int64_t last)
      : fetch_(fetch),
        options_(options),
        order_(std::move(order)),
        examples_(examples),
        made_(first),
        taken_(first),
        last_(last) {
    const bool ahead = options.workers > 0 || options.prefetch.is_cuda();
    slots_.resize(ahead ? static_cast<std::size_t>(std::max(options.prefetch_batches, options.workers)) : 1);
    if (options.prefetch.is_cuda()) {
      upload_.emplace(options.prefetch);
      Event now;  // whatever the caller has queued for the dataset's tensors comes first
      now.record(current_stream(options.prefetch));
      now.wait(**upload_);
    }
    workers_.reserve(static_cast<std::size_t>(options.workers));
    try {
      for (int i = 0; i < options.workers && i < last - first; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // The system gives no more threads: those there are do it, or the loop itself.
    } catch (...) {
      stop();
      throw;
    }
  }
  ~EpochRun() { stop(); }

  bool next(std::vector<Tensor>& batch) {
    if (taken_ == last_) return false;
    Slot& slot = slot_of(taken_);
    if (workers_.empty()) {
      while (made_ < last_ && made_ < taken_ + window()) {
        make(made_, slot_of(made_));
        ++made_;
      }
    } else {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [&] { return slot.done; });
    }
    if (slot.error) std::rethrow_exception(slot.error);
    batch = std::move(slot.tensors);
    if (options_.prefetch.is_cuda()) {
      const Stream current = current_stream(options_.prefetch);
      slot.uploaded.wait(current);
      // The memory belongs to the upload's stream; it must not go back there before this one is done with it.
      for (const Tensor& t : batch) t.impl()->storage->record_stream(current);
    }
    {
      const std::lock_guard lock(mutex_);
      slot.done = false;
      ++taken_;
    }
    work_.notify_one();
    return true;
  }

 private:
  struct Slot {
    std::vector<Tensor> tensors;
    std::exception_ptr error;
    Event uploaded;
    bool done = false;
  };

  std::int64_t window() const { return static_cast<std::int64_t>(slots_.size()); }
  Slot& slot_of(std::int64_t batch) { return slots_[static_cast<std::size_t>(batch % window())]; }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    work_.notify_all();
    for (std::thread& w : workers_) w.join();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock,
                 [&] { return stopped_ || (made_ < last_ && made_ < taken_ + window()) || made_ == last_; });
      if (stopped_ || made_ == last_) return;
      const std::int64_t batch = made_++;
      Slot& slot = slot_of(batch);
      lock.unlock();
      make(batch, slot);
      lock.lock();
      slot.done = true;
      ready_.notify_one();
    }
  }

  void make(std::int64_t batch, Slot& slot) noexcept {
    slot.error = nullptr;
    try {
      const NoGrad guard;
      const std::int64_t begin = batch * options_.batch_size;
      const std::int64_t count = std::min(options_.batch_size, examples_ - begin);
      struct Pinned {
        explicit Pinned(bool on) : before(std::exchange(pinned_batches(), on)) {}
        ~Pinned() { pinned_batches() = before; }
        bool before;
      } const pinned(options_.prefetch.is_cuda());
      // A rank's part; that of one rank is all.
      const std::int64_t part = (count - 1) / options_.num_replicas + 1;
      std::vector<std::int64_t> indices;
      ct::detail::reserve("DataLoader", indices, part);
      for (std::int64_t i = 0; i < part; ++i) {
        const std::int64_t at = begin + (options_.rank * part + i) % count;
        indices.push_back(order_.empty() ? at : order_[static_cast<std::size_t>(at)]);
      }
      if (options_.prefetch.is_cuda()) {
        const StreamGuard on(**upload_);
        slot.tensors = fetch_(indices);
        upload(slot);
      } else {
        slot.tensors = fetch_(indices);
      }
    } catch (...) {
      slot.tensors.clear();
      slot.error = std::current_exception();
    }
  }

  void upload(Slot& slot) {
    for (Tensor& t : slot.tensors) {
      const Tensor host = t.is_cpu() && !t.is_pinned() ? t.pin_memory() : t;
      t = host.to(options_.prefetch);
      if (host.is_cpu()) host.impl()->storage->record_stream(**upload_);
    }
    slot.uploaded.record(**upload_);
  }

  const LoaderCore::Fetch& fetch_;
  const LoaderOptions& options_;
  const std::vector<std::int64_t> order_;  // empty: 0, 1, 2, ...
  const std::int64_t examples_;
  std::vector<Slot> slots_;
  std::optional<UploadStream> upload_;
  std::mutex mutex_;
  std::condition_variable work_, ready_;
  std::int64_t made_, taken_, last_;  // next to make, next to hand out, end
  bool stopped_ = false;
  std::vector<std::thread> workers_;  // last: the threads use everything above
};

LoaderCore::LoaderCore(std::int64_t examples, Fetch fetch, const LoaderOptions& options)
    : dataset_size_(examples),
      examples_(options.sampler ? options.sampler->size() : examples),
      fetch_(std::move(fetch)),
      options_(options) {
  CT_CHECK(options.batch_size > 0, ValueError, "DataLoader", "batch_size is ", options.batch_size,
           "; it must be > 0");
  CT_CHECK(options.workers >= 0 && options.workers <= 1024, ValueError, "DataLoader", "workers is ",
           options.workers, "; it must lie in [0, 1024]");
  CT_CHECK(options.prefetch_batches > 0 && options.prefetch_batches <= kMostAhead, ValueError, "DataLoader",
           "prefetch_batches is ", options.prefetch_batches, "; it must lie in [1, ", kMostAhead, ']');
  CT_CHECK(examples >= 0, ValueError, "DataLoader", "the dataset's size is ", examples, "; it must be >= 0");
  CT_CHECK(!options.sampler || (!options.shuffle && examples_ >= 0), ValueError, "DataLoader",
           "got a sampler of size ", examples_,
           options.shuffle ? ", and shuffle too; the order is the sampler's alone" : "; it must be >= 0");
  CT_CHECK(options.num_replicas >= 1 && options.batch_size % options.num_replicas == 0, ValueError,
           "DataLoader", "batch_size is ", options.batch_size, " for ", options.num_replicas,
           " ranks; each takes the same part of it, so it must be a multiple of their number");
  CT_CHECK(options.rank >= 0 && options.rank < options.num_replicas, ValueError, "DataLoader", "rank is ",
           options.rank, "; it must lie in [0, ", options.num_replicas, ')');
  if (options.prefetch.is_cuda()) check_device("DataLoader", options.prefetch);
  // An order that needs no seed draws none: a loop that only evaluates leaves the generator as it was.
  if (options.seed || options.shuffle)
    seed_ = options.seed ? *options.seed
                         : philox_word64(ct::detail::on_host("DataLoader", default_generator().reserve()), 0);
}

LoaderCore::~LoaderCore() = default;

std::int64_t LoaderCore::batch_count() const {
  const bool shorter = !options_.drop_last && examples_ % options_.batch_size != 0;
  return examples_ / options_.batch_size + (shorter ? 1 : 0);
}

// The examples of an epoch. Empty for all in their own order: there may be more than memory has room for their numbers.
std::vector<std::int64_t> LoaderCore::order(std::int64_t epoch) const {
  if (!options_.sampler)
    return options_.shuffle ? shuffled(examples_, seed_, epoch) : std::vector<std::int64_t>();
  std::vector<std::int64_t> order = options_.sampler->order(epoch);
  CT_CHECK(static_cast<std::int64_t>(order.size()) == examples_, ValueError, "DataLoader",
           "the sampler gave ", order.size(), " examples for an epoch, its size is ", examples_,
           "; order() must give size() of them");
  for (const std::int64_t i : order)
    CT_CHECK(i >= 0 && i < dataset_size_, IndexError, "DataLoader", "the sampler gave example ", i,
             ", which is out of range; it must lie in [0, ", dataset_size_, ')');
  return order;
}

void LoaderCore::begin() {
  CT_CHECK(!run_, Error, "DataLoader",
           "is being looped over already; give the inner loop a loader of its own");
  const std::int64_t epoch = this->epoch(), position = resumed_ ? position_ : 0;
  run_ = std::make_shared<EpochRun>(fetch_, options_, order(epoch), examples_,
                                    std::min(position, batch_count()), batch_count());
  epoch_ = epoch;
  position_ = position;
  resumed_ = left_ = false;
}

bool LoaderCore::next(std::vector<Tensor>& batch) {
  if (!run_) return false;
  if (run_->next(batch)) {
    ++position_;
    return true;
  }
  run_.reset();
  ++epoch_;
  position_ = 0;
  return false;
}

void LoaderCore::end() {
  left_ = left_ || run_ != nullptr;
  run_.reset();
}

StateDict LoaderCore::state_dict() const {
  StateDict state;
  state.set_value("seed", seed_);
  state.set_value("epoch", epoch());
  state.set_value("position", position());
  state.set_value("examples", examples_ * replicas());
  state.set_value("batch_size", options_.batch_size * replicas());
  state.set_value("shuffle", options_.shuffle);
  state.set_value("drop_last", options_.drop_last);
  return state;
}

void LoaderCore::check_state_dict(const StateDict& state) const {
  const auto same = [&]<class T>(const char* what, T own) {
    const T other = state.value<T>(what);
    CT_CHECK(other == own, ValueError, "load_state_dict", "the saved loader has ", what, " = ", other,
             ", this one ", own, "; batches would not be the same: use the same data and options");
  };
  same("examples", examples_ * replicas());
  same("batch_size", options_.batch_size * replicas());
  same("shuffle", options_.shuffle);
  same("drop_last", options_.drop_last);
  const std::int64_t epoch = state.count("epoch", "load_state_dict"),
                     position = state.value<std::int64_t>("position");
  state.value<std::int64_t>("seed");
  CT_CHECK(position >= 0 && position <= batch_count(), ValueError, "load_state_dict",
           "the saved loader stands at batch ", position, " of epoch ", epoch, "; an epoch has ",
           batch_count(), " batches: use the same data and options");
}

void LoaderCore::load_state_dict(const StateDict& state) {
  CT_CHECK(!run_, Error, "load_state_dict", "the loader is being looped over; load before the loop");
  check_state_dict(state);
  seed_ = static_cast<std::uint64_t>(state.value<std::int64_t>("seed"));
  epoch_ = state.value<std::int64_t>("epoch");
  position_ = state.value<std::int64_t>("position");
  resumed_ = true;
  left_ = false;
}

std::vector<Tensor> stack_batch(std::span<const std::int64_t> indices,
                                FunctionRef<std::vector<Tensor>(std::int64_t i)> example) {
  std::vector<std::vector<Tensor>> columns;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    std::vector<Tensor> tensors = example(indices[k]);
    if (k == 0) columns.resize(tensors.size());
    CT_CHECK(tensors.size() == columns.size(), ShapeError, "DataLoader", "example ", indices[k], " has ",
             tensors.size(), " tensors, the first of its batch ", columns.size(),
             "; all have the same number");
    for (std::size_t c = 0; c < columns.size(); ++c) columns[c].push_back(std::move(tensors[c]));
  }
  std::vector<Tensor> batch;
  batch.reserve(columns.size());
  for (const std::vector<Tensor>& column : columns) batch.push_back(stack_examples(column));
  return batch;
}

}  // namespace ct::data::detail
