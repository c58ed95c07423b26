#include <condition_variable>
#include <cstring>
#include <mutex>

#include <cotangent/ops/collective/group.h>
#include <cotangent/ops/collective/transport_internal.h>

// Ranks that are threads read each other's memory, between two points at which all of them meet.

namespace ct::dist::detail {

struct ThreadsMeeting {
  explicit ThreadsMeeting(int ranks) : at(static_cast<std::size_t>(ranks)) {}
  struct Place {
    std::span<const Part> give;
    std::uint64_t phase = 0;  // that this rank has come to
    bool left = false;
  };
  std::mutex mutex;
  std::condition_variable moved;
  std::vector<Place> at;
  int readers = 0;  // ranks that read memory of others
  std::string failure;
};

namespace {

class Threads final : public Transport {
 public:
  Threads(std::shared_ptr<ThreadsMeeting> meeting, int rank)
      : meeting_(std::move(meeting)), rank_(static_cast<std::size_t>(rank)) {}

  const char* name() const override { return "threads"; }

  std::vector<int> exchange(std::span<const Part> give, std::span<const Part> take,
                            Deadline deadline) override {
    ThreadsMeeting& m = *meeting_;
    std::unique_lock lock(m.mutex);
    m.at[rank_].give = give;
    // Whoever leaves by an exception takes his memory along, which nobody may be reading.
    struct Leaving {
      ThreadsMeeting& m;
      std::unique_lock<std::mutex>& lock;
      std::size_t rank;
      ~Leaving() {
        m.at[rank].give = {};
        m.moved.wait(lock, [&] { return m.readers == 0; });
      }
    } leaving{m, lock, rank_};
    if (std::vector<int> missing = meet(lock, deadline, true); !missing.empty()) return missing;
    ++m.readers;
    lock.unlock();
    for (std::size_t q = 0; q < take.size(); ++q) {
      const Part from = m.at[q].give[rank_];
      if (q != rank_ && take[q].bytes > 0) std::memcpy(take[q].data, from.data, take[q].bytes);
    }
    lock.lock();
    if (--m.readers == 0) m.moved.notify_all();
    return meet(lock, deadline, false);
  }

  void abort(const std::string& why) noexcept override {
    const std::lock_guard lock(meeting_->mutex);
    if (meeting_->failure.empty()) meeting_->failure = why;
    meeting_->moved.notify_all();
  }

  std::string failure() override {
    const std::lock_guard lock(meeting_->mutex);
    return meeting_->failure;
  }

  void close(bool) noexcept override {
    const std::lock_guard lock(meeting_->mutex);
    meeting_->at[rank_].left = true;
    meeting_->moved.notify_all();
  }

 private:
  // Waits until all ranks have come to this rank's next phase. Returns those that have not in time. Behind a failure memory may
  // be gone that would be read now; what is done already stays done.
  std::vector<int> meet(std::unique_lock<std::mutex>& lock, Deadline deadline, bool reads) {
    ThreadsMeeting& m = *meeting_;
    const std::uint64_t phase = ++m.at[rank_].phase;
    m.moved.notify_all();
    const auto behind = [&] {
      std::vector<int> ranks;
      for (std::size_t q = 0; q < m.at.size(); ++q)
        if (m.at[q].phase < phase) ranks.push_back(static_cast<int>(q));
      return ranks;
    };
    while (true) {
      std::vector<int> missing = behind();
      if (missing.empty() && (!reads || m.failure.empty())) return missing;
      if (!m.failure.empty()) throw PeerError(m.failure);
      for (const int q : missing)
        if (m.at[static_cast<std::size_t>(q)].left)
          throw PeerError(ct::detail::cat("rank ", q, " has left the group"));
      if (m.moved.wait_until(lock, deadline) == std::cv_status::timeout && m.failure.empty()) return behind();
    }
  }

  std::shared_ptr<ThreadsMeeting> meeting_;
  std::size_t rank_;
};

}  // namespace

std::shared_ptr<ThreadsMeeting> make_meeting(int ranks) { return std::make_shared<ThreadsMeeting>(ranks); }

std::unique_ptr<Transport> threads_transport(std::shared_ptr<ThreadsMeeting> meeting, int rank) {
  return std::make_unique<Threads>(std::move(meeting), rank);
}

}  // namespace ct::dist::detail
