#include <cotangent/core/device/parallel.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <cotangent/core/base/error.h>

#include "tests/catch.h"

namespace {

// Restores the number of threads at the end of a test.
struct Threads {
  int before = ct::num_threads();
  explicit Threads(int count) { ct::set_num_threads(count); }
  ~Threads() { ct::set_num_threads(before); }
};

double chunked_sum(const std::vector<double>& x, std::int64_t grain) {
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<double> partial(static_cast<std::size_t>(ct::chunk_count(n, grain)));
  ct::parallel_chunks(n, grain, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    partial[static_cast<std::size_t>(chunk)] = std::accumulate(x.begin() + begin, x.begin() + end, 0.0);
  });
  return std::accumulate(partial.begin(), partial.end(), 0.0);
}

}  // namespace

TEST_CASE("chunk_count rounds up", "[parallel]") {
  CHECK(ct::chunk_count(0, 4) == 0);
  CHECK(ct::chunk_count(-3, 4) == 0);
  CHECK(ct::chunk_count(1, 4) == 1);
  CHECK(ct::chunk_count(4, 4) == 1);
  CHECK(ct::chunk_count(5, 4) == 2);
  CHECK(ct::chunk_count(5, 0) == 5);
}

TEST_CASE("parallel_for visits every index once, in chunks cut by n and grain alone", "[parallel]") {
  for (const int threads : {1, 2, 5}) {
    const Threads scope(threads);
    for (const std::int64_t n : {0, 1, 2, 3, 7, 64, 65, 1000}) {
      for (const std::int64_t grain : {-1, 1, 2, 3, 64, 5000}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(n));
        std::atomic<bool> cut_ok{true};
        const std::int64_t step = grain < 1 ? 1 : grain;
        ct::parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
          if (begin % step != 0 || end != std::min(n, begin + step)) cut_ok = false;
          for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        CHECK(cut_ok);
        for (const auto& v : visits) REQUIRE(v == 1);
      }
    }
  }
}

TEST_CASE("a chunked sum has the same bits for any number of threads", "[parallel]") {
  std::vector<double> x(100'003);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i)) * 1e3;
  double first = 0;
  for (const int threads : {1, 2, 3, 8}) {
    const Threads scope(threads);
    const double sum = chunked_sum(x, 1000);
    if (threads == 1) first = sum;
    CHECK(sum == first);
  }
}

TEST_CASE("the pool's threads do take part", "[parallel]") {
  const Threads scope(4);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  // Every chunk waits until a second thread has come (or five seconds have passed).
  std::atomic<int> arrived{0};
  ct::parallel_for(4, 1, [&](std::int64_t, std::int64_t) {
    {
      const std::lock_guard lock(mutex);
      ids.insert(std::this_thread::get_id());
    }
    ++arrived;
    for (int i = 0; i < 5000 && arrived < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  CHECK(ids.size() >= 2);
}

TEST_CASE("a nested call runs inline in the thread that makes it", "[parallel]") {
  const Threads scope(3);
  std::atomic<int> total{0}, elsewhere{0};
  ct::parallel_for(8, 1, [&](std::int64_t, std::int64_t) {
    const auto me = std::this_thread::get_id();
    ct::parallel_for(10, 1, [&](std::int64_t, std::int64_t) {
      ++total;
      if (std::this_thread::get_id() != me) ++elsewhere;
    });
  });
  CHECK(total == 80);
  CHECK(elsewhere == 0);
}

TEST_CASE("the exception of the lowest throwing chunk reaches the caller", "[parallel]") {
  for (const int threads : {1, 4}) {
    const Threads scope(threads);
    for (int round = 0; round < 50; ++round) {
      std::string message;
      try {
        ct::parallel_for(100, 1, [&](std::int64_t begin, std::int64_t) {
          if (begin >= 13) throw std::runtime_error(std::to_string(begin));
        });
      } catch (const std::runtime_error& e) { message = e.what(); }
      REQUIRE(message == "13");
    }
    // and the pool still works
    std::atomic<int> count{0};
    ct::parallel_for(100, 1, [&](std::int64_t, std::int64_t) { ++count; });
    CHECK(count == 100);
  }
}

TEST_CASE("several user threads may use the pool at once", "[parallel]") {
  const Threads scope(3);
  std::vector<double> x(20'000, 0.1);
  const double expected = chunked_sum(x, 100);
  std::atomic<int> wrong{0};
  std::vector<std::thread> users;
  for (int t = 0; t < 4; ++t)
    users.emplace_back([&] {
      for (int i = 0; i < 200; ++i)
        if (chunked_sum(x, 100) != expected) ++wrong;
    });
  for (auto& user : users) user.join();
  CHECK(wrong == 0);
}

TEST_CASE("jobs that come after pauses of any length are run in full", "[parallel]") {
  const Threads scope(4);
  for (int round = 0; round < 300; ++round) {
    std::atomic<int> count{0};
    ct::parallel_for(7, 1, [&](std::int64_t, std::int64_t) { ++count; });
    REQUIRE(count == 7);
    std::this_thread::sleep_for(std::chrono::microseconds(round % 100 * 2));
  }
}

TEST_CASE("the number of threads is checked", "[parallel]") {
  CHECK_THROWS_AS(ct::set_num_threads(0), ct::ValueError);
  CHECK_THROWS_AS(ct::set_num_threads(-1), ct::ValueError);
  CHECK_THROWS_AS(ct::set_num_threads(100000), ct::ValueError);
  const Threads scope(2);
  CHECK(ct::num_threads() == 2);
  CHECK_THROWS_AS(ct::parallel_for(4, 1, [](std::int64_t, std::int64_t) { ct::set_num_threads(1); }),
                  ct::Error);
  CHECK(ct::num_threads() == 2);
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("the number of threads can change right after a job", "[parallel]") {
  // A worker that comes too late for the last job must still see that it is to end, or the change waits for ever.
  const Threads restore(4);
  std::atomic<std::int64_t> visited{0};
  for (int round = 0; round < 1000; ++round) {
    ct::set_num_threads(4 + round % 2);
    for (int job = 0; job < 3; ++job)
      ct::parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end) { visited += end - begin; });
  }
  CHECK(visited == 1000 * 3 * 8);
}

TEST_CASE("the child of a fork has a working pool", "[parallel]") {
  const Threads scope(3);
  std::atomic<int> count{0};
  ct::parallel_for(10, 1, [&](std::int64_t, std::int64_t) { ++count; });
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> inner{0};
    ct::parallel_for(10, 1, [&](std::int64_t, std::int64_t) { ++inner; });
    _exit(inner == 10 && ct::num_threads() == 3 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

namespace {
int plain_function(int x) { return x + 1; }
}  // namespace

TEST_CASE("FunctionRef calls lambdas, const callables and functions", "[parallel]") {
  int calls = 0;
  auto count = [&](int by) { return calls += by; };
  const ct::FunctionRef<int(int)> ref = count;
  CHECK(ref(2) == 2);
  CHECK(ref(3) == 5);
  const auto fixed = [](int x) { return 2 * x; };
  CHECK(ct::FunctionRef<int(int)>(fixed)(21) == 42);
  CHECK(ct::FunctionRef<int(int)>(plain_function)(1) == 2);
}
