#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

// How bytes come from one rank to another on the host. What collectives make of them is the group's (group.cpp).

namespace ct::dist::detail {

using Deadline = std::chrono::steady_clock::time_point;

struct Part {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Called, once, with why the ranks can't go on; from any thread.
using OnFailure = std::function<void(const std::string& why)>;

class Transport {
 public:
  virtual ~Transport() = default;
  virtual const char* name() const = 0;
  /// Whether ranks compare each call, which takes an exchange more.
  virtual bool compares() const { return true; }
  /// Sends `give[q]` to each other rank q and fills `take[q]` with what q gives this one; the own places are the caller's.
  /// Both sides agree about the bytes. Returns the ranks that have not come before the deadline, none if all is done.
  /// Throws PeerError where a peer is gone.
  virtual std::vector<int> exchange(std::span<const Part> give, std::span<const Part> take,
                                    Deadline deadline) = 0;
  /// Tells the others why; never waits.
  virtual void abort(const std::string& why) noexcept = 0;
  /// Why another rank has ended the group, as far as it is known here; empty otherwise.
  virtual std::string failure() { return {}; }
  /// An orderly end; `failed` after an error. Never waits longer than a second.
  virtual void close(bool failed) noexcept = 0;
};

/// A place where threads meet, and the transport of one of them.
struct ThreadsMeeting;
std::shared_ptr<ThreadsMeeting> make_meeting(int ranks);
std::unique_ptr<Transport> threads_transport(std::shared_ptr<ThreadsMeeting> meeting, int rank);

/// Rank 0 listens at the address; the bytes of all go through it.
std::unique_ptr<Transport> tcp_transport(int rank, int size, const std::string& address, int port,
                                         std::chrono::milliseconds timeout, OnFailure failed);

/// Opens MPI and starts it, and tells the rank and the number of ranks.
std::unique_ptr<Transport> mpi_transport(int& rank, int& size);

}  // namespace ct::dist::detail
