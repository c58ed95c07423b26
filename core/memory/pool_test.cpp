#include <cotangent/core/memory/pool_store_internal.h>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <cotangent/core/base/ref.h>

#include "tests/catch.h"

using namespace ct;

static_assert(detail::pool_class(1) == 0 && detail::pool_class(64) == 0 && detail::pool_class(65) == 1);
static_assert(detail::pool_class(512) == 7 && detail::pool_class(513) == 8 && detail::pool_class(640) == 8);
static_assert(detail::pool_class(641) == 9);
static_assert(detail::pool_class(detail::kPoolMaxBytes) == detail::kPoolClasses - 1);

TEST_CASE("pool: each size gets the smallest class that holds it") {
  for (std::size_t bytes = 1; bytes <= detail::kPoolMaxBytes; ++bytes) {
    const int index = detail::pool_class(bytes);
    REQUIRE(detail::pool_class_bytes(index) >= bytes);
    if (index > 0) REQUIRE(detail::pool_class_bytes(index - 1) < bytes);
    REQUIRE(detail::pool_class_bytes(index) % detail::kPoolAlign == 0);
  }
}

TEST_CASE("pool: live blocks are distinct; a freed block is the next one taken") {
  std::set<void*> seen;
  std::vector<void*> blocks;
  for (int i = 0; i < 3000; ++i) {
    void* p = pool_allocate<200>();
    REQUIRE(seen.insert(p).second);
    std::memset(p, i, 200);
    blocks.push_back(p);
  }
  for (void* p : blocks) pool_deallocate<200>(p);
  if (!CT_POOL_BYPASS) {
    CHECK(pool_allocate<200>() == blocks.back());
    pool_deallocate<200>(blocks.back());
  }
  void* large = pool_allocate(100000);  // beyond the pool's classes
  std::memset(large, 1, 100000);
  pool_deallocate(large, 100000);
}

TEST_CASE("pool: blocks travel between threads and survive them") {
  std::vector<int*> made;
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) {
      int* p = static_cast<int*>(pool_allocate(4));
      *p = i;
      made.push_back(p);
    }
  }).join();
  bool intact = true;
  for (int i = 0; i < 1000; ++i) intact = intact && *made[static_cast<std::size_t>(i)] == i;
  CHECK(intact);
  std::thread([&] {
    for (int* p : made) pool_deallocate(p, 4);
  }).join();
  if (CT_POOL_BYPASS) return;
  // Blocks of the ended threads come back out of the store.
  const std::set<void*> known(made.begin(), made.end());
  std::vector<void*> again;
  int found = 0;
  for (int i = 0; i < 2000; ++i) {
    again.push_back(pool_allocate(4));
    found += known.count(again.back()) != 0;
  }
  CHECK(found > 900);
  for (void* p : again) pool_deallocate(p, 4);
}

namespace {

struct Counted : RefCounted, Pooled {
  explicit Counted(int* alive) : alive_(alive) { ++*alive_; }
  ~Counted() override { --*alive_; }
  int* alive_;
};
struct Derived final : Counted {
  using Counted::Counted;
  char more[500] = {};
};
struct Kept final : RefCounted {
  int zeros = 0;
  void release_zero() noexcept override { ++zeros; }
};

}  // namespace

TEST_CASE("ref: objects live as long as their handles") {
  int alive = 0;
  {
    Ref<Derived> a = make_ref<Derived>(&alive);
    CHECK(a.unique());
    Ref<Counted> b = a;
    CHECK_FALSE(a.unique());
    CHECK(a->use_count() == 2);
    CHECK(b == a);
    Ref<Counted> c = std::move(b);
    CHECK(b == nullptr);
    CHECK(c->use_count() == 2);
    a.reset();
    CHECK(c.unique());
    CHECK(alive == 1);
    const Ref<Counted>& itself = c;
    c = itself;
    CHECK(alive == 1);
    Counted* raw = c.detach();
    CHECK(alive == 1);
    Ref<Counted> d = Ref<Counted>::adopt(raw);
    Ref<Counted> e = Ref<Counted>::share(raw);
    CHECK(d->use_count() == 2);
    e = Ref<Counted>();
    d = Ref<Counted>(new Derived(&alive));
    CHECK(alive == 1);
  }
  CHECK(alive == 0);
}

TEST_CASE("ref: a class decides what the last release does") {
  Kept kept;
  { Ref<Kept> first = Ref<Kept>::first(&kept); }
  CHECK(kept.zeros == 1);
}

TEST_CASE("ref: threads share and let go of one object") {
  for (int round = 0; round < 200; ++round) {
    int alive = 0;
    Ref<Counted> shared = make_ref<Counted>(&alive);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([copy = shared]() mutable {
        for (int i = 0; i < 100; ++i) Ref<Counted> again = copy;
        copy.reset();
      });
    shared.reset();
    for (std::thread& thread : threads) thread.join();
    REQUIRE(alive == 0);
  }
}
