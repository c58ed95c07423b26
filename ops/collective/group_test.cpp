#include <cotangent/ops/collective/group.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include <cotangent/ops.h>
#include <cotangent/ops/collective/group_internal.h>

#include "tests/catch.h"
#include "tests/dist_testing.h"

using namespace ct;
using namespace ct::testing;
using namespace std::chrono_literals;
using dist::Group;
using dist::detail::Part;

namespace {

// Messages of the ranks that failed, in order; "" for none. run_threads() is not told of them.
std::vector<std::string> told(int ranks, std::chrono::milliseconds limit,
                              const std::function<void(const Group&)>& f) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  dist::run_threads(ranks,
                    [&](const Group& g) {
                      try {
                        f(g);
                      } catch (const PeerError& e) {
                        texts[static_cast<std::size_t>(g.rank())] = e.what();
                        try {
                          g.check();
                          texts[static_cast<std::size_t>(g.rank())] = "the group goes on";
                        } catch (const PeerError&) {  // as it should
                        }
                      }
                    },
                    {.timeout = limit});
  return texts;
}
void check_all(const std::vector<std::string>& texts, const std::string& part) {
  for (std::size_t r = 0; r < texts.size(); ++r) {
    CAPTURE(r, texts[r]);
    CHECK(texts[r].find(part) != std::string::npos);
    CHECK(texts[r].find("rank " + std::to_string(r) + " of ") != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a rank alone", "[dist]") {
  const Group g;
  CHECK(g.rank() == 0);
  CHECK(g.size() == 1);
  CHECK(g.backend() == "alone");
  CHECK(g.log().empty());
  dist::barrier(g);
  CHECK(equal(dist::all_gather(ones({3}), g), ones({3})));
  g.abort("no matter");
  g.check();
}

TEST_CASE("run_threads: ranks, and their log", "[dist]") {
  std::atomic<int> seen = 0;
  std::vector<dist::GroupCall> log;
  dist::run_threads(3, [&](const Group& g) {
    seen += 1 << g.rank();
    CT_CHECK(g.size() == 3 && g.backend() == "threads", Error, "test", "another group");
    for (int i = 0; i < 1100; ++i) dist::all_reduce(ones({2, 3}), g);
    if (g.rank() == 1) log = g.log();
  });
  CHECK(seen == 7);
  REQUIRE(log.size() == 1024);
  CHECK(log.back().number == 1101);  // the first is that of all ranks' coming
  CHECK(log.front().number == 78);
  CHECK(log.back().name == "all_reduce f32[2, 3] (sum)");
  CHECK(log.back().bytes == 24);
  CHECK(log.back().ms >= 0);
  CHECK_THROWS_AS(dist::run_threads(0, [](const Group&) {}), ValueError);
  CHECK_THROWS_AS(dist::run_threads(2, [](const Group&) {}, {}, {cpu}), ValueError);
  CHECK_THROWS_AS(dist::run_threads(2, [](const Group&) {}, {.timeout = 0ms}), ValueError);
}

TEST_CASE("ranks that differ are named", "[dist]") {
  check_all(told(3, 20s, [](const Group& g) { dist::all_reduce(ones({g.rank() == 1 ? 4 : 3}), g); }),
            "in call 2 rank 1 makes all_reduce f32[4] (sum) where rank 0 makes all_reduce f32[3] (sum)");
  check_all(
      told(2, 20s,
           [](const Group& g) { dist::all_gather(ones({3}, {.dtype = g.rank() == 1 ? f64 : f32}), g); }),
      "rank 1 makes all_gather f64[3] where rank 0 makes all_gather f32[3]");
  check_all(told(2, 20s,
                 [](const Group& g) {
                   if (g.rank() == 1) return dist::barrier(g);
                   dist::broadcast(ones({3}), g);
                 }),
            "rank 1 makes barrier where rank 0 makes broadcast f32[3] from rank 0");
  check_all(told(2, 20s,
                 [](const Group& g) {
                   dist::all_reduce(ones({3}), g, g.rank() == 0 ? dist::ReduceOp::max : dist::ReduceOp::min);
                 }),
            "rank 1 makes all_reduce f32[3] (min) where rank 0 makes all_reduce f32[3] (max)");
}

namespace {
// A transport that tells another version of the library.
class Older final : public dist::detail::Transport {
 public:
  explicit Older(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  const char* name() const override { return inner_->name(); }
  std::vector<int> exchange(std::span<const Part> give, std::span<const Part> take,
                            dist::detail::Deadline deadline) override {
    std::vector<Part> parts(give.begin(), give.end());
    dist::detail::Intent changed;
    if (parts[0].bytes == sizeof changed) {
      std::memcpy(&changed, parts[0].data, sizeof changed);
      std::strcpy(changed.version, "0.0.9");
      for (Part& part : parts) part.data = &changed;
    }
    return inner_->exchange(parts, take, deadline);
  }
  void abort(const std::string& why) noexcept override { inner_->abort(why); }
  void close(bool failed) noexcept override { inner_->close(failed); }

 private:
  std::unique_ptr<Transport> inner_;
};
}  // namespace

TEST_CASE("a rank of another version is named", "[dist]") {
  const auto meeting = dist::detail::make_meeting(2);
  std::string texts[2];
  const auto run = [&](int rank) {
    auto transport = dist::detail::threads_transport(meeting, rank);
    if (rank == 1) transport = std::make_unique<Older>(std::move(transport));
    const auto group = dist::detail::make_group(std::move(transport), rank, 2, cpu, 20s);
    try {
      dist::detail::meet(*group);
    } catch (const PeerError& e) { texts[rank] = e.what(); }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  for (const std::string& text : texts)
    CHECK_THAT(text, Catch::Contains("rank 1 runs version 0.0.9 of the library, rank 0 version"));
}

TEST_CASE("a late rank is named by all, itself too", "[dist]") {
  const auto start = std::chrono::steady_clock::now();
  check_all(told(3, 200ms,
                 [](const Group& g) {
                   if (g.rank() == 2) std::this_thread::sleep_for(500ms);
                   dist::all_reduce(ones({5}), g);
                 }),
            "rank 2 did not come to call 2, all_reduce f32[5] (sum), within 0.2 s");
  CHECK(std::chrono::steady_clock::now() - start < 5s);
}

TEST_CASE("a rank that leaves, or ends by an exception, ends the others", "[dist]") {
  const std::vector<std::string> left = told(3, 20s, [](const Group& g) {
    if (g.rank() == 1) return;
    dist::barrier(g);
    dist::barrier(g);
  });
  CHECK(left[1].empty());
  CHECK_THAT(left[0], Catch::Contains("rank 1 has left the group"));
  CHECK_THAT(left[2], Catch::Contains("rank 1 has left the group"));
  for (const int r : {0, 2})
    CHECK_THAT(left[static_cast<std::size_t>(r)], Catch::Contains("in call 2, barrier"));

  std::mutex mutex;
  std::vector<std::string> texts;
  CHECK_THROWS_WITH(dist::run_threads(3,
                                      [&](const Group& g) {
                                        try {
                                          dist::barrier(g);
                                          if (g.rank() == 1) throw ValueError("a program's own");
                                          dist::barrier(g);
                                        } catch (const PeerError& e) {
                                          const std::lock_guard lock(mutex);
                                          texts.push_back(e.what());
                                          throw;
                                        }
                                      },
                                      {.timeout = 20s}),
                    "a program's own");
  REQUIRE(texts.size() == 2);
  for (const std::string& text : texts) {
    CHECK_THAT(text, Catch::Contains("rank 1 ended with: a program's own"));
    CHECK_THAT(text, Catch::Contains("barrier"));
  }
}

TEST_CASE("a call of a group that has ended", "[dist]") {
  Tensor y;
  Tensor x = ones({2}).set_requires_grad();
  dist::run_threads(1, [&](const Group& g) { y = dist::all_reduce(x, g); });
  CHECK_THROWS_WITH(y.sum().backward(), Catch::Contains("a call of a group that has ended"));
}
