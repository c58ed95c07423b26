#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <cotangent/ops/collective/group.h>
#include <cotangent/ops/collective/transport_internal.h>

// Each rank has two connections with rank 0: one for data, and one whose end says that the process at its other end is gone.

namespace ct::dist::detail {
namespace {

constexpr std::uint64_t kHello = 0x3164697374746f63;  // "cotdist1"
constexpr char kOp[] = "dist";
using Clock = std::chrono::steady_clock;

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  /// Ends both directions: those that wait for it go on.
  void end() const {
    if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
  }

 private:
  int fd_;
};

// Moves all bytes, in whichever direction; those of `more` travel with what follows. False at the deadline; throws PeerError where
// the connection has ended.
enum class Way { in, out, more };
bool move(const Socket& s, Way way, void* data, std::size_t bytes, Deadline deadline) {
  // A peer that is at work on this machine answers within the time that a thread takes to fall asleep and wake up.
  constexpr auto kSpin = std::chrono::microseconds(100);
  auto* at = static_cast<char*>(data);
  std::optional<Clock::time_point> idle;
  while (bytes > 0) {
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (way == Way::more ? MSG_MORE : 0);
    const ssize_t n =
        way == Way::in ? ::recv(s.fd(), at, bytes, MSG_DONTWAIT) : ::send(s.fd(), at, bytes, flags);
    if (n > 0) {
      at += n, bytes -= static_cast<std::size_t>(n);
      idle.reset();
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) throw PeerError("its connection has ended");
    const auto now = Clock::now();
    if (!idle) idle = now;
    if (now - *idle < kSpin) {
      std::this_thread::yield();
      continue;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now).count();
    if (left <= 0) return false;
    pollfd wait{s.fd(), static_cast<short>(way == Way::in ? POLLIN : POLLOUT), 0};
    ::poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(left, 1000)));
  }
  return true;
}

struct Hello {
  std::uint64_t magic = kHello;
  std::int32_t rank = 0, size = 0, watch = 0, rest = 0;
};

struct Addresses {
  addrinfo* list = nullptr;
  Addresses(const std::string& host, int port) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC, hints.ai_socktype = SOCK_STREAM;
    const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
    CT_CHECK(error == 0, IoError, kOp, "MASTER_ADDR is '", host,
             "', which can't be found: ", ::gai_strerror(error));
  }
  ~Addresses() {
    if (list) ::freeaddrinfo(list);
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
};

void no_delay(const Socket& s) {
  const int on = 1;
  ::setsockopt(s.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Socket listen_at(const std::string& host, int port) {
  const Addresses found(host, port);
  std::string why;
  for (const addrinfo* a = found.list; a; a = a->ai_next) {
    Socket s(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(s.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (s && ::bind(s.fd(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(s.fd(), 1024) == 0) return s;
    why = std::strerror(errno);
  }
  ct::detail::fail<IoError>(kOp, "rank 0 can't listen at ", host, ':', port, ": ", why,
                            "; MASTER_ADDR must be an address of rank 0's host, and MASTER_PORT be free");
}

Socket connect_to(const std::string& host, int port, Deadline deadline) {
  std::string why;
  while (true) {
    const Addresses found(host, port);
    for (const addrinfo* a = found.list; a; a = a->ai_next) {
      Socket s(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (s && ::connect(s.fd(), a->ai_addr, a->ai_addrlen) == 0) return s;
      why = std::strerror(errno);
    }
    CT_CHECK(Clock::now() < deadline, IoError, kOp, "rank 0 does not answer at ", host, ':', port, ": ", why,
             "; MASTER_ADDR and MASTER_PORT must be the same for all ranks, and rank 0 be started");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

class Tcp final : public Transport {
 public:
  Tcp(int rank, int size, const std::string& host, int port, std::chrono::milliseconds timeout,
      OnFailure failed)
      : rank_(rank),
        size_(size),
        failed_(std::move(failed)),
        data_(static_cast<std::size_t>(size)),
        watch_(static_cast<std::size_t>(size)),
        done_(static_cast<std::size_t>(size)) {
    const Deadline deadline = Clock::now() + timeout;
    if (rank_ == 0) {
      accept_all(listen_at(host, port), deadline);
    } else {
      for (const bool watch : {false, true}) {
        Socket s = connect_to(host, port, deadline);
        no_delay(s);
        Hello hello{.rank = rank_, .size = size_, .watch = watch};
        move(s, Way::out, &hello, sizeof hello, deadline);
        (watch ? watch_ : data_)[0] = std::move(s);
      }
    }
    int ends[2] = {-1, -1};
    CT_CHECK(::pipe2(ends, O_CLOEXEC) == 0, IoError, kOp, "no pipe: ", std::strerror(errno));
    wake_in_ = Socket(ends[0]), wake_out_ = Socket(ends[1]);
    watcher_ = std::thread([this] { watch(); });
  }
  ~Tcp() override { close(true); }

  const char* name() const override { return "tcp"; }

  std::vector<int> exchange(std::span<const Part> give, std::span<const Part> take,
                            Deadline deadline) override {
    int peer = 0;
    try {
      if (rank_ == 0) return relay(give, take, deadline, peer);
      // Rank 0 knows who is late, and has time to say so.
      deadline += std::chrono::seconds(2);
      const auto own = static_cast<std::size_t>(rank_);
      for (std::size_t q = 0; q < give.size(); ++q) {
        std::uint64_t bytes = give[q].bytes;
        if (q != own && (!move(data_[0], bytes > 0 ? Way::more : Way::out, &bytes, sizeof bytes, deadline) ||
                         !move(data_[0], Way::out, give[q].data, bytes, deadline)))
          return {0};
      }
      for (std::size_t p = 0; p < take.size(); ++p)
        if (p != own && !move(data_[0], Way::in, take[p].data, take[p].bytes, deadline)) return {0};
      return {};
    } catch (const PeerError&) {
      // The reason may be on its way.
      for (int i = 0; i < 20 && failure().empty(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const std::string known = failure();
      throw PeerError(known.empty() ? ct::detail::cat("rank ", peer, " is gone: its connection has ended")
                                    : known);
    }
  }

  void abort(const std::string& why) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      if (!why_.empty()) return;
      why_ = why;
    }
    send_to_all('F', why);
    for (const Socket& s : data_) s.end();
  }

  std::string failure() override {
    const std::lock_guard lock(mutex_);
    return why_;
  }

  void close(bool failed) noexcept override {
    if (!watcher_.joinable()) return;
    if (failed)
      abort(ct::detail::cat("rank ", rank_, " has ended with an error"));
    else
      send_to_all('B', "");
    closing_ = true;
    const char byte = 0;
    if (::write(wake_out_.fd(), &byte, 1) < 0) return watcher_.detach();
    watcher_.join();
    data_.clear(), watch_.clear();
  }

 private:
  void accept_all(const Socket& listener, Deadline deadline) {
    int left = 2 * (size_ - 1);
    while (left > 0) {
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      std::string missing;
      for (int q = 1; q < size_; ++q)
        if (!watch_[static_cast<std::size_t>(q)]) missing += ' ' + std::to_string(q);
      CT_CHECK(ms > 0, PeerError, kOp, "ranks", missing, " of ", size_, " have not come to rank 0 in time");
      pollfd wait{listener.fd(), POLLIN, 0};
      if (::poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(ms, 1000))) <= 0) continue;
      Socket s(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!s) continue;
      no_delay(s);
      Hello hello;
      try {  // whoever else knocks is let go
        if (!move(s, Way::in, &hello, sizeof hello,
                  std::min(deadline, Clock::now() + std::chrono::seconds(5))))
          continue;
      } catch (const PeerError&) { continue; }
      if (hello.magic != kHello) continue;
      CT_CHECK(hello.size == size_ && hello.rank > 0 && hello.rank < size_, PeerError, kOp,
               "a process came as rank ", hello.rank, " of ", hello.size, ", rank 0 waits for ", size_,
               "; WORLD_SIZE must be the same for all");
      Socket& place = (hello.watch ? watch_ : data_)[static_cast<std::size_t>(hello.rank)];
      CT_CHECK(!place, PeerError, kOp, "two processes came as rank ", hello.rank,
               "; each needs a RANK of its own");
      place = std::move(s);
      --left;
    }
  }

  // Rank 0 takes in all that the ranks give each other, its own share in place, and hands it on. Bytes in another number than it takes
  // are let go: compare() has told that these ranks make different calls.
  std::vector<int> relay(std::span<const Part> give, std::span<const Part> take, Deadline deadline,
                         int& peer) {
    const auto n = static_cast<std::size_t>(size_);
    std::vector<Part> from(n * n);  // by giver and taker
    relayed_.resize(n * n);
    for (std::size_t p = 1; p < n; ++p) {
      peer = static_cast<int>(p);
      for (std::size_t q = 0; q < n; ++q) {
        if (q == p) continue;
        std::uint64_t bytes = 0;
        if (!move(data_[p], Way::in, &bytes, sizeof bytes, deadline)) return late(p, deadline);
        std::vector<char>& kept = relayed_[p * n + q];
        const bool direct = q == 0 && bytes == take[p].bytes;
        if (!direct && kept.size() < bytes) kept.resize(bytes);
        from[p * n + q] = {direct ? take[p].data : kept.data(), bytes};
        if (!move(data_[p], Way::in, from[p * n + q].data, bytes, deadline)) return late(p, deadline);
      }
    }
    for (std::size_t q = 1; q < n; ++q) {
      peer = static_cast<int>(q);
      for (std::size_t p = 0; p < n; ++p) {
        const Part& part = p == 0 ? give[q] : from[p * n + q];
        if (p != q && !move(data_[q], Way::out, part.data, part.bytes, deadline)) return {peer};
      }
    }
    return {};
  }
  // Rank p has not come; those behind it may not have, either.
  std::vector<int> late(std::size_t p, Deadline) const {
    std::vector<int> ranks{static_cast<int>(p)};
    for (std::size_t q = p + 1; q < data_.size(); ++q) {
      pollfd ready{data_[q].fd(), POLLIN, 0};
      if (::poll(&ready, 1, 0) <= 0) ranks.push_back(static_cast<int>(q));
    }
    return ranks;
  }

  void send_to_all(char kind, const std::string& text) noexcept {
    std::string message(1, kind);
    const auto length = static_cast<std::uint32_t>(text.size());
    message.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
    for (std::size_t q = 0; q < watch_.size(); ++q)
      if (watch_[q])
        (void)!::send(watch_[q].fd(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  // Tells the group of the first peer that fails.
  void watch() {
    while (!closing_) {
      std::vector<pollfd> wait{{wake_in_.fd(), POLLIN, 0}};
      std::vector<std::size_t> ranks{0};
      for (std::size_t q = 0; q < watch_.size(); ++q)
        if (watch_[q] && !done_[q]) wait.push_back({watch_[q].fd(), POLLIN, 0}), ranks.push_back(q);
      ::poll(wait.data(), wait.size(), 1000);
      for (std::size_t i = 1; i < wait.size() && !closing_; ++i)
        if (wait[i].revents != 0) listen_to(ranks[i]);
    }
  }
  void listen_to(std::size_t q) {
    done_[q] = true;
    std::string why = ct::detail::cat("rank ", q, " is gone: its process has ended");
    try {
      const Deadline soon = Clock::now() + std::chrono::seconds(2);
      char kind = 0;
      std::uint32_t length = 0;
      if (move(watch_[q], Way::in, &kind, 1, soon) &&
          move(watch_[q], Way::in, &length, sizeof length, soon)) {
        if (kind == 'B') return;
        std::string text(std::min<std::uint32_t>(length, 1 << 16), ' ');
        if (move(watch_[q], Way::in, text.data(), text.size(), soon)) why = text;
      }
    } catch (const PeerError&) {  // NOLINT: that is what `why` says
    }
    if (failed_) failed_(why);
    abort(why);
  }

  const int rank_, size_;
  const OnFailure failed_;
  std::vector<Socket> data_, watch_;  // of rank 0: by peer; of the others: with rank 0
  std::vector<char> done_;            // the watcher's
  std::vector<std::vector<char>> relayed_;
  std::mutex mutex_;
  std::string why_;
  Socket wake_in_, wake_out_;
  std::atomic<bool> closing_{false};
  std::thread watcher_;
};

}  // namespace

std::unique_ptr<Transport> tcp_transport(int rank, int size, const std::string& address, int port,
                                         std::chrono::milliseconds timeout, OnFailure failed) {
  return std::make_unique<Tcp>(rank, size, address, port, timeout, std::move(failed));
}

}  // namespace ct::dist::detail
