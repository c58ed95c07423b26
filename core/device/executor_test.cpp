#include <cotangent/cotangent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"

using namespace ct;

namespace {

// A program's executor: threads that take tasks from a queue. The caller takes its own while it waits.
class Queue final : public Executor {
 public:
  explicit Queue(int threads) {
    for (int t = 0; t < threads; ++t) threads_.emplace_back([this] { serve(); });
  }
  ~Queue() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  int concurrency() const override { return static_cast<int>(threads_.size()) + 1; }
  void run(int n, FunctionRef<void(int)> piece) override {
    ++runs;
    Batch batch{piece, n};
    std::unique_lock lock(mutex_);
    for (int i = 1; i < n; ++i) tasks_.push_back({&batch, i});
    wake_.notify_all();
    lock.unlock();
    one(lock, {&batch, 0});
    while (batch.left > 0) {
      const auto mine = std::find_if(tasks_.begin(), tasks_.end(),
                                     [&](const Task& t) { return greedy || t.batch == &batch; });
      mine == tasks_.end() ? wake_.wait(lock) : take(lock, mine);
    }
  }
  bool is_mine(std::thread::id id) const {
    for (const std::thread& t : threads_)
      if (t.get_id() == id) return true;
    return false;
  }
  std::atomic<int> runs{0};
  bool greedy = false;  // takes what is not its own, too

 private:
  struct Batch {
    FunctionRef<void(int)> piece;
    int left;
  };
  struct Task {
    Batch* batch;
    int index;
  };
  void take(std::unique_lock<std::mutex>& lock, std::deque<Task>::iterator at) {
    const Task task = *at;
    tasks_.erase(at);
    lock.unlock();
    one(lock, task);
  }
  void one(std::unique_lock<std::mutex>& lock, Task task) {
    task.batch->piece(task.index);
    lock.lock();
    if (--task.batch->left == 0) wake_.notify_all();
  }
  void serve() {
    std::unique_lock lock(mutex_);
    while (!stop_) tasks_.empty() ? wake_.wait(lock) : take(lock, tasks_.begin());
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

// Runs the pieces [first, n) one after another.
struct Serial final : Executor {
  explicit Serial(int width, int from = 0) : pieces(width), first(from) {}
  int concurrency() const override { return pieces; }
  void run(int n, FunctionRef<void(int)> piece) override {
    ++runs;
    most = std::max(most, n);
    for (int i = first; i < n; ++i) piece(i);
  }
  int pieces, first, runs = 0, most = 0;
};

struct Refusing final : Executor {
  int concurrency() const override { return 4; }
  void run(int, FunctionRef<void(int)>) override { throw std::runtime_error("no threads today"); }
};

template <class E>
struct Lent {
  std::shared_ptr<E> executor;
  explicit Lent(std::shared_ptr<E> e) : executor(std::move(e)) { set_executor(executor); }
  ~Lent() { set_executor(nullptr); }
  E* operator->() const { return executor.get(); }
};
template <class E, class... Args>
Lent<E> lend(Args... args) {
  return Lent<E>(std::make_shared<E>(args...));
}

// Products, sums and a gradient, large enough for several chunks each.
std::vector<float> train() {
  static const Tensor x = sin(arange(200 * 300).to(f32)).view(200, 300);
  Tensor w = cos(arange(300 * 300).to(f32)).view(300, 300).set_requires_grad();
  for (int step = 0; step < 2; ++step) {
    w.set_grad({});
    softmax(matmul(x, w).tanh(), 1).square().sum().backward();
    const NoGrad off;
    w.sub_(w.grad() * 0.5);
  }
  return w.to_vector<float>();
}

}  // namespace

TEST_CASE("threads that a program lends do the library's work, and no others", "[executor]") {
  const auto queue = lend<Queue>(3);
  CHECK(num_threads() == 4);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::atomic<int> visits{0}, arrived{0};
  // Every chunk waits until a second thread has come (or five seconds have passed).
  parallel_for(8, 1, [&](std::int64_t, std::int64_t) {
    {
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    }
    ++visits, ++arrived;
    for (int i = 0; i < 5000 && arrived < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  CHECK(visits == 8);
  CHECK(queue->runs == 1);
  CHECK(seen.size() >= 2);
  for (const std::thread::id id : seen) CHECK((id == std::this_thread::get_id() || queue->is_mine(id)));
}

TEST_CASE("results have the same bits with any executor", "[executor]") {
  const std::vector<float> pool = train();
  const auto agrees = [&](auto lent) {
    CHECK((train() == pool));
    CHECK(lent->runs > 0);
  };
  agrees(lend<Queue>(1));
  agrees(lend<Queue>(5));
  agrees(lend<Serial>(3));
  agrees(lend<Serial>(64));
  agrees(lend<Serial>(4, 4));  // runs no piece at all: the caller does what is left
  const NoThreads alone;
  CHECK((train() == pool));
}

TEST_CASE("an executor is asked for as many pieces as there are chunks, and where one is enough not at all",
          "[executor]") {
  const auto serial = lend<Serial>(5);
  parallel_for(3, 1, [](std::int64_t, std::int64_t) {});
  CHECK(serial->most == 3);
  parallel_for(30, 1, [](std::int64_t, std::int64_t) {});
  CHECK(serial->most == 5);
  CHECK(serial->runs == 2);
  serial->pieces = 1;
  int visits = 0;
  parallel_for(3, 1, [&](std::int64_t, std::int64_t) { ++visits; });
  CHECK(visits == 3);
  serial->pieces = 0;
  CHECK(num_threads() == 1);
  parallel_for(3, 1, [&](std::int64_t, std::int64_t) { ++visits; });
  CHECK(visits == 6);
  CHECK(serial->runs == 2);
}

TEST_CASE("a piece begins with its own share of the chunks, then it helps with the others", "[executor]") {
  struct From final : Executor {
    explicit From(int f) : first(f) {}
    int concurrency() const override { return 3; }
    void run(int n, FunctionRef<void(int)> piece) override {
      for (int i = 0; i < n; ++i) piece((first + i) % n);
    }
    const int first;
  };
  const auto order_from = [](int first) {
    set_executor(std::make_shared<From>(first));
    std::vector<std::int64_t> begun;
    parallel_for(7, 1, [&](std::int64_t begin, std::int64_t) { begun.push_back(begin); });
    set_executor(nullptr);
    return begun;
  };
  // 7 chunks for 3: 0 and 1, 2 and 3, 4 to 6. The piece that is run first does everything.
  CHECK(order_from(0) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6});
  CHECK(order_from(1) == std::vector<std::int64_t>{2, 3, 4, 5, 6, 0, 1});
  CHECK(order_from(2) == std::vector<std::int64_t>{4, 5, 6, 0, 1, 2, 3});
}

TEST_CASE("work inside of a lent thread's piece stays in that thread", "[executor]") {
  const auto queue = lend<Queue>(3);
  std::atomic<int> total{0}, elsewhere{0};
  for (int round = 0; round < 20; ++round)
    parallel_for(8, 1, [&](std::int64_t, std::int64_t) {
      const auto me = std::this_thread::get_id();
      parallel_for(10, 1, [&](std::int64_t, std::int64_t) {
        ++total;
        if (std::this_thread::get_id() != me) ++elsewhere;
      });
    });
  CHECK(total == 20 * 80);
  CHECK(elsewhere == 0);
  CHECK(queue->runs == 20);
}

TEST_CASE("ops may be called in the executor's own tasks, by all of them at once", "[executor]") {
  const std::vector<float> pool = train();
  const auto queue = lend<Queue>(3);
  std::atomic<int> wrong{0};
  queue->run(4, [&](int) {
    if (train() != pool) ++wrong;
  });
  CHECK(wrong == 0);
  CHECK(queue->runs > 4);
}

TEST_CASE("the exception of the lowest throwing chunk comes through an executor, which goes on working",
          "[executor]") {
  const auto queue = lend<Queue>(3);
  for (int round = 0; round < 50; ++round) {
    std::string message;
    try {
      parallel_for(100, 1, [](std::int64_t begin, std::int64_t) {
        if (begin >= 13) throw std::runtime_error(std::to_string(begin));
      });
    } catch (const std::runtime_error& e) { message = e.what(); }
    REQUIRE(message == "13");
  }
  std::atomic<int> count{0};
  parallel_for(100, 1, [&](std::int64_t, std::int64_t) { ++count; });
  CHECK(count == 100);
}

TEST_CASE("what an executor throws, the op throws, and the pool can have its place back", "[executor]") {
  const Tensor a = ones({400, 400});
  {
    const auto refusing = lend<Refusing>();
    CHECK_THROWS_WITH(matmul(a, a), "no threads today");
    CHECK_THROWS_WITH(matmul(a, a), "no threads today");  // the thread that called is as free as before
  }
  CHECK(matmul(a, a).sum().item<double>() == 400. * 400 * 400);
}

TEST_CASE("an executor that does other work while an op waits is told so", "[executor]") {
  const auto queue = lend<Queue>(0);  // no thread takes the tasks but the caller
  queue->greedy = true;
  std::string message;
  struct Two final : Executor {  // as `queue`, which has one thread, but asked for two pieces
    Queue& inner;
    explicit Two(Queue& q) : inner(q) {}
    int concurrency() const override { return 2; }
    void run(int n, FunctionRef<void(int)> piece) override { inner.run(n, piece); }
  };
  const auto two = lend<Two>(std::ref(*queue.executor));
  queue->run(2, [&](int) {
    try {
      parallel_for(4, 1, [](std::int64_t, std::int64_t) {});
    } catch (const Error& e) { message = e.what(); }
  });
  CHECK_THAT(message, Catch::Matchers::Contains("[parallel] the executor's run() does other work"));
}

TEST_CASE("an executor can be taken away at any time, but not by the work itself", "[executor]") {
  std::weak_ptr<Queue> gone;
  {
    const auto queue = lend<Queue>(2);
    gone = queue.executor;
    CHECK_THROWS_AS(parallel_for(4, 1, [](std::int64_t, std::int64_t) { set_executor(nullptr); }), Error);
    CHECK(num_threads() == 3);
  }
  CHECK(gone.expired());
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> users;
  for (int t = 0; t < 2; ++t)
    users.emplace_back([&] {
      while (!stop) {
        std::atomic<int> visits{0};
        parallel_for(16, 1, [&](std::int64_t, std::int64_t) { ++visits; });
        if (visits != 16) ++wrong;
      }
    });
  for (int round = 0; round < 30; ++round) {
    set_executor(std::make_shared<Queue>(2));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    set_executor(nullptr);
  }
  stop = true;
  for (std::thread& user : users) user.join();
  CHECK(wrong == 0);
}

TEST_CASE("NoThreads keeps a thread's work in the thread", "[executor]") {
  const auto serial = lend<Serial>(4);
  const auto me = std::this_thread::get_id();
  int elsewhere = 0;
  {
    const NoThreads alone;
    const NoThreads again;
    parallel_for(8, 1, [&](std::int64_t, std::int64_t) { elsewhere += std::this_thread::get_id() != me; });
  }
  CHECK(serial->runs == 0);
  std::thread([&] {
    const NoThreads alone;
    parallel_for(8, 1, [](std::int64_t, std::int64_t) {});
  }).join();
  parallel_for(8, 1, [](std::int64_t, std::int64_t) {});
  CHECK(serial->runs == 1);
  CHECK(elsewhere == 0);
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("the child of a fork has the pool instead of its parent's executor", "[executor]") {
  const int threads = num_threads();
  const auto queue = lend<Queue>(threads);  // and the caller
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> inner{0};
    parallel_for(10, 1, [&](std::int64_t, std::int64_t) { ++inner; });
    _exit(inner == 10 && num_threads() == threads ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif
