#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Ranks with an array each, and wires between them that count: how much each rank sends, and in how many rounds.

namespace book {

class Wires {
 public:
  /// `ring`: the only wire of a rank leads to the next one, of the last to the first. Else each has one to each.
  Wires(std::vector<std::vector<double>> values, bool ring) : values(std::move(values)), ring_(ring) {
    sent.resize(this->values.size());
  }

  int ranks() const { return static_cast<int>(values.size()); }
  std::size_t size() const { return values[0].size(); }
  /// Begin of part j of ranks() nearly equal ones; of part ranks() the end of all.
  std::size_t part(int j) const { return size() * static_cast<std::size_t>(j) / values.size(); }

  /// In this round rank `from` sends its part j to rank `to`, which adds it to its own or takes it in the place of that. A rank
  /// sends one message in a round, and gets one.
  void send(int from, int to, int j, bool add) {
    if (ring_ && to != (from + 1) % ranks())
      throw std::runtime_error("there is no wire from " + name(from) + " to " + name(to));
    for (const Message& m : under_way_)
      if (m.from == from || m.to == to)
        throw std::runtime_error("two messages of " + name(m.from == from ? from : to) + " in a round");
    const auto& mine = values[static_cast<std::size_t>(from)];
    const auto at = [&](int k) { return mine.begin() + static_cast<std::ptrdiff_t>(part(k)); };
    under_way_.push_back({from, to, j, add, {at(j), at(j + 1)}});
    sent[static_cast<std::size_t>(from)] += part(j + 1) - part(j);
  }
  /// All that was sent arrives.
  void round() {
    ++rounds;
    for (const Message& m : under_way_) {
      double* const y = values[static_cast<std::size_t>(m.to)].data() + part(m.j);
      for (std::size_t i = 0; i < m.numbers.size(); ++i) y[i] = m.add ? y[i] + m.numbers[i] : m.numbers[i];
    }
    under_way_.clear();
  }

  std::vector<std::vector<double>> values;
  std::vector<std::size_t> sent;  ///< numbers, by each rank
  int rounds = 0;

 private:
  struct Message {
    int from, to, j;
    bool add;
    std::vector<double> numbers;
  };
  static std::string name(int rank) { return "rank " + std::to_string(rank); }
  bool ring_;
  std::vector<Message> under_way_;
};

}  // namespace book
