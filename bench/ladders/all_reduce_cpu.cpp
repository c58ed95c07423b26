#include <cotangent/ops/collective/collective.h>
#include <cotangent/ops/creation/creation.h>

#include <cstring>

#include "bench/ladders/rows_cpu.h"

// Every rank has n numbers, and wants the sum over all ranks. Here ranks are threads of one process, whose memory all can
// read: what counts is how often a number is fetched, and who works meanwhile.

namespace ct::ladder::all_reduce {
namespace {

const float* from(const Call& c, std::int64_t rank) {
  return static_cast<const float*>(c.in[static_cast<std::size_t>(rank)].raw_data());
}
float* to(const Call& c, std::int64_t rank) {
  return static_cast<float*>(c.out[static_cast<std::size_t>(rank)].raw_data());
}
// Calls f(rank) in a thread for each rank.
template <class F>
void ranks(const Call& c, const F& f) {
  parallel_for(c.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t rank = begin; rank < end; ++rank) f(rank);
  });
}

// The sum of numbers begin to end, in the order of the ranks, written to one rank's result.
void add_up(const Call& c, std::int64_t rank, std::int64_t begin, std::int64_t end) {
  float* const y = to(c, rank);
  std::memcpy(y + begin, from(c, 0) + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
  for (std::int64_t r = 1; r < c.size(0); ++r)
    for (std::int64_t i = begin; i < end; ++i) y[i] += from(c, r)[i];
}

// Root: rank 0 adds all up, the others wait, then copy. (p + 1) n numbers go through one thread.
void root(const Call& c) {
  add_up(c, 0, 0, c.size(1));
  ranks(c, [&](std::int64_t rank) {
    if (rank > 0) std::memcpy(to(c, rank), to(c, 0), static_cast<std::size_t>(c.size(1)) * sizeof(float));
  });
}

// Everyone: nobody waits, each rank adds all up. p n numbers are read by each of p ranks: the work is done p times.
void everyone(const Call& c) {
  ranks(c, [&](std::int64_t rank) { add_up(c, rank, 0, c.size(1)); });
}

// Shares: each rank adds up one p-th of the numbers (reduce-scatter), and all copy what the others have added up
// (all-gather). Every number is read once and the sum written once; the order is that of the ranks in every share.
std::int64_t bound(const Call& c, std::int64_t share) { return c.size(1) * share / c.size(0); }
void shares(const Call& c) {
  ranks(c, [&](std::int64_t rank) { add_up(c, rank, bound(c, rank), bound(c, rank + 1)); });
  ranks(c, [&](std::int64_t rank) {
    for (std::int64_t share = 0; share < c.size(0); ++share) {
      const std::int64_t begin = bound(c, share), end = bound(c, share + 1);
      if (share != rank)
        std::memcpy(to(c, rank) + begin, to(c, share) + begin,
                    static_cast<std::size_t>(end - begin) * sizeof(float));
    }
  });
}

// Blocks: shares of 16 KiB at a time, written to all ranks while the sum is in the first-level cache: the second reading of
// the sums costs nothing. Only ranks that share their memory can do it.
void blocks(const Call& c) {
  const std::int64_t grain = 1 << 12;
  parallel_for(c.size(1), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += grain) {
      const std::int64_t stop = std::min(end, i + grain);
      add_up(c, 0, i, stop);
      for (std::int64_t rank = 1; rank < c.size(0); ++rank)
        std::memcpy(to(c, rank) + i, to(c, 0) + i, static_cast<std::size_t>(stop - i) * sizeof(float));
    }
  });
}

// Ring: what ranks do that share no memory. In p - 1 rounds each rank passes a share to its right neighbour, which adds it to
// its own, and in p - 1 more the sums go round: 2 (p - 1) / p n numbers over each wire, however many ranks there are. Each share
// begins with another rank: the order is another one than above, and the same in each run.
void ring(const Call& c) {
  const std::int64_t p = c.size(0);
  ranks(c, [&](std::int64_t rank) {
    std::memcpy(to(c, rank), from(c, rank), static_cast<std::size_t>(c.size(1)) * sizeof(float));
  });
  for (std::int64_t round = 0; round < 2 * (p - 1); ++round) {
    const bool adds = round < p - 1;
    ranks(c, [&](std::int64_t rank) {
      const std::int64_t step = adds ? round + 1 : round - (p - 1), share = (rank + p - step) % p;
      const std::int64_t begin = bound(c, share), end = bound(c, share + 1);
      const float* const x = to(c, (rank + p - 1) % p);  // the left neighbour's
      float* const y = to(c, rank);
      if (adds)
        for (std::int64_t i = begin; i < end; ++i) y[i] += x[i];
      else
        std::memcpy(y + begin, x + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
    });
  }
}

Tensors reduced(const Tensors& in) {
  Tensors out(in.size());
  dist::run_threads(static_cast<std::int64_t>(in.size()), [&](dist::Group group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    out[rank] = dist::all_reduce(in[rank], group);
  });
  return out;
}

const bool kAdded = add({
    .name = "all_reduce",
    .what = "sums over ranks that are threads, ranks x numbers",
    .device = DeviceType::cpu,
    .unit = Unit::bytes,
    .small = {{f32, {4, 1000}}, {f32, {3, 37}}, {f32, {1, 5}}, {f32, {5, 3}}},
    .timed = {{f32, {4, 1 << 23}}},
    .work = [](const Case& c) { return 8.0 * static_cast<double>(c.size[0] * c.size[1]); },
    .inputs =
        [](const Case& c) {
          Tensors in;
          for (std::int64_t rank = 0; rank < c.size[0]; ++rank) in.push_back(randn({c.size[1]}));
          return in;
        },
    .plain = reduced,
    .library = reduced,
    .library_name = "ct::dist::all_reduce",
    .rungs = {{"root", "one rank adds, the others wait and copy", root},
              {"everyone", "nobody waits, and each does all of the work", everyone},
              {"shares", "each adds one share for all: every number is read once", shares},
              {"blocks", "a share goes to all ranks while it is in the cache", blocks},
              {"ring", "no shared memory: neighbours alone, 2 (p - 1) / p of the numbers over each wire",
               ring}},
});

}  // namespace
}  // namespace ct::ladder::all_reduce
