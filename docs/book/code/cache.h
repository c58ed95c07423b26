#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>
#include <vector>

// A cache that counts, for chapter 8: the lines that a program fetches from memory, on any machine.

namespace book {

/// Keeps the `lines` lines of 64 bytes that were used last, and counts those that had to be fetched.
class Cache {
 public:
  explicit Cache(std::size_t lines) : most_(lines) {}

  /// The line that holds this byte is used.
  void touch(std::size_t byte) {
    const std::size_t line = byte / 64;
    if (!used_.empty() && used_.front() == line) return;
    const auto found = place_.find(line);
    if (found != place_.end()) {
      used_.splice(used_.begin(), used_, found->second);
      return;
    }
    ++fetched;
    used_.push_front(line);
    place_[line] = used_.begin();
    if (used_.size() <= most_) return;
    place_.erase(used_.back());  // the one that has not been used for longest goes
    used_.pop_back();
  }

  /// Forgets every line, and what was fetched.
  void clear() {
    used_.clear();
    place_.clear();
    fetched = 0;
  }

  /// The address of memory that nothing else has.
  std::size_t room_for(std::size_t bytes) {
    const std::size_t begin = end_;
    end_ += (bytes + 63) / 64 * 64;
    return begin;
  }

  long fetched = 0;

 private:
  std::size_t most_, end_ = 0;
  std::list<std::size_t> used_;  // the one used last in front
  std::unordered_map<std::size_t, std::list<std::size_t>::iterator> place_;
};

/// A matrix of floats, row by row, each use of which passes through a cache.
class WatchedMatrix {
 public:
  WatchedMatrix(Cache& cache, std::size_t rows, std::size_t columns)
      : rows(rows), columns(columns), cache_(&cache), values_(rows * columns) {
    begin_ = cache.room_for(rows * columns * sizeof(float));
  }
  float& operator()(std::size_t i, std::size_t j) {
    cache_->touch(begin_ + (i * columns + j) * sizeof(float));
    return values_[i * columns + j];
  }
  const std::vector<float>& values() const { return values_; }

  std::size_t rows, columns;

 private:
  Cache* cache_;
  std::size_t begin_;
  std::vector<float> values_;
};

}  // namespace book
