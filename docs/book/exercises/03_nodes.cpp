#include <cotangent/cotangent.h>

#include <book.h>

#include <03_nodes.h>

// Judges kept_by().
// wrong: peek().nbytes() ==> peek().numel()
// wrong: open.push_back(edge.node.get()); ==> if (seen.size() < 3) open.push_back(edge.node.get());

namespace {

void expect(const char* what, const ct::Tensor& root, int nodes, std::int64_t bytes) {
  const answer::Kept kept = answer::kept_by(root);
  std::printf("%-22s %d nodes, %lld bytes; right are %d and %lld\n", what, kept.nodes,
              static_cast<long long>(kept.bytes), nodes, static_cast<long long>(bytes));
  book::claim(kept.nodes == nodes && kept.bytes == bytes, "nodes and bytes are counted right");
}

void judge() {
  const ct::Tensor x = ct::ones({10}).set_requires_grad();
  expect("a leaf", x, 0, 0);
  expect("exp(x) of 10 floats", ct::exp(x), 1, 40);
  const ct::Tensor y = ct::tanh(x);
  expect("y + y, with y = tanh", y + y, 2, 40);
  ct::Tensor z = x;
  for (int i = 0; i < 40; ++i) z = z + z;
  expect("40 diamonds", z, 40, 0);
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
