#pragma once

// Elements that a thread takes, when blocks stay and walk.

namespace answer {

/// Who asks: a thread of a block, in a grid of so many blocks of so many threads.
struct Thread {
  long thread, block, threads, blocks;
};

/// The element that this thread takes in its step k = 0, 1, ..., each - 1, where `each` steps are what n elements need; it
/// leaves out what is not below n. Every element has one taker. This one takes neighbours, as one would on a CPU.
inline long element(const Thread& who, long k, [[maybe_unused]] long each) {
  return (who.block * who.threads + who.thread) * each + k;  // yours: neighbours for neighbouring threads
}

}  // namespace answer
