#include <book.h>

#include <11_products.h>

#include <algorithm>
#include <string>
#include <vector>

// Judges multiply_all() by the time that it takes on a machine whose loads and multiplications go on at once.
// wrong:     m.wait(step);\n ==>
// wrong: if (step + 1 < steps) m.load(step + 1, (step + 1) % 2);\n    m.multiply(step % 2); ==> m.multiply(step % 2);\n    if (step + 1 < steps) m.load(step + 1, (step + 1) % 2);

namespace {

class Machine {
 public:
  Machine(int steps, double load, double multiply)
      : load_(load), multiply_(multiply), there_(static_cast<std::size_t>(steps), -1) {}

  void load(int step, int buffer) {
    known(step);
    book::claim(buffer == 0 || buffer == 1, "there are two buffers, 0 and 1");
    book::claim(holds_[buffer] < next_, "a buffer is loaded before what it holds has been multiplied");
    begun_ = std::max(now, begun_) + load_;
    there_[static_cast<std::size_t>(step)] = begun_, holds_[buffer] = step;
  }
  void wait(int step) {
    known(step);
    book::claim(there_[static_cast<std::size_t>(step)] >= 0,
                "nobody has loaded step " + std::to_string(step));
    now = std::max(now, there_[static_cast<std::size_t>(step)]);
  }
  void multiply(int buffer) {
    book::claim(buffer == 0 || buffer == 1, "there are two buffers, 0 and 1");
    book::claim(holds_[buffer] == next_, "step " + std::to_string(next_) + " is to be multiplied next");
    book::claim(there_[static_cast<std::size_t>(next_)] <= now, "a tile is multiplied before it is there");
    now += multiply_, ++next_;
  }
  int multiplied() const { return next_; }

  double now = 0;

 private:
  void known(int step) const {
    const auto steps = static_cast<int>(there_.size());
    book::claim(step >= 0 && step < steps,
                "there is no step " + std::to_string(step) + " in a product of " + std::to_string(steps));
  }

  double load_, multiply_, begun_ = 0;
  std::vector<double> there_;
  int holds_[2] = {-1, -1}, next_ = 0;
};

void judge() {
  const double times[][2] = {{1300, 2048}, {1300, 1300}, {1300, 512}};
  for (const auto& [load, multiply] : times)
    for (const int steps : {1, 2, 7, 256}) {
      Machine m(steps, load, multiply);
      answer::multiply_all(m, steps);
      book::claim(m.multiplied() == steps, "every step is multiplied");
      const double least = load + multiply + (steps - 1) * std::max(load, multiply);
      if (steps == 256 || m.now > least)
        std::printf(
            "a load takes %4.0f cycles, a multiplication %4.0f: %d steps in %.0f, the least is %.0f\n", load,
            multiply, steps, m.now, least);
      book::claim(m.now <= least, "loads and multiplications go on at once");
    }
  Machine none(0, 1, 1);
  answer::multiply_all(none, 0);
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
