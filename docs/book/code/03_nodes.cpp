#include <cotangent/autograd/node.h>
#include <cotangent/cotangent.h>

#include <book.h>
#include <graph.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

// Chapter 3: contents of the library's tape, read from its nodes.

namespace {

using ct::Tensor;

/// All nodes that `root` was made through, the youngest first: the order in which backward() visits them.
std::vector<const ct::Node*> nodes_of(const Tensor& root) {
  std::vector<const ct::Node*> found;
  std::vector<const ct::Node*> open = {static_cast<const ct::Node*>(root.impl()->grad_fn.get())};
  while (!open.empty()) {
    const ct::Node* node = open.back();
    open.pop_back();
    if (!node || std::find(found.begin(), found.end(), node) != found.end()) continue;
    found.push_back(node);
    for (const ct::Edge& edge : node->edges) open.push_back(edge.node.get());
  }
  std::sort(found.begin(), found.end(), [](auto* a, auto* b) { return a->sequence() > b->sequence(); });
  return found;
}

/// The bytes of the tensors that a node saves for backward.
long long bytes_of(const ct::Node& node) {
  long long bytes = 0;
  for (const ct::KeptTensor& kept : node.kept()) bytes += kept.saved->peek().nbytes();
  return bytes;
}

using Names = std::map<const ct::TensorImpl*, std::string>;

/// A line for each node: its number counted from the oldest, op, shape of the result, bytes kept, and where gradients go.
void print_tape(const Tensor& root, const Names& leaves) {
  const std::vector<const ct::Node*> nodes = nodes_of(root);
  const auto number = [&](const ct::Node* node) {
    return nodes.end() - std::find(nodes.begin(), nodes.end(), node);
  };
  std::printf("#  op          result     keeps  gradients go to\n");
  for (const ct::Node* node : nodes) {
    std::ostringstream shape, edges;
    shape << node->output_meta(0).shape;
    for (const ct::Edge& edge : node->edges)
      if (edge)
        edges << (edge.node ? std::to_string(number(edge.node.get())) : leaves.at(edge.leaf.get())) << ' ';
    std::string to = edges.str();
    to.pop_back();
    std::printf("%zd  %-10s  %-8s %5lld B  %s\n", static_cast<std::ptrdiff_t>(number(node)),
                std::string(node->name()).c_str(), shape.str().c_str(), bytes_of(*node), to.c_str());
  }
}

Tensor wave(const ct::Shape& shape, double pace) {
  return ct::sin(pace * ct::arange(1, ct::numel(shape) + 1, {.dtype = ct::f64})).view(shape);
}

struct Network {
  Tensor x = wave({4, 2}, 1.1), t = wave({4, 1}, 0.9);
  Tensor w1 = wave({3, 2}, 0.7).set_requires_grad(),
         b1 = ct::zeros({3}, {.dtype = ct::f64}).set_requires_grad();
  Tensor w2 = wave({1, 3}, 0.3).set_requires_grad();
  Names names() const { return {{w1.impl(), "w1"}, {b1.impl(), "b1"}, {w2.impl(), "w2"}}; }
  Tensor loss() const { return ct::mse_loss(ct::linear(ct::tanh(ct::linear(x, w1, b1)), w2), t); }
};

void tape() {
  book::section("tape");
  const Network net;
  const Tensor loss = net.loss();
  print_tape(loss, net.names());

  const std::vector<const ct::Node*> nodes = nodes_of(loss);
  std::vector<book::Box> boxes;
  std::vector<std::pair<std::size_t, std::size_t>> arrows;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const double x = 80 + 170 * static_cast<double>(nodes.size() - 1 - i);
    std::ostringstream shape;
    shape << nodes[i]->output_meta(0).shape;
    boxes.push_back({x,
                     50,
                     {std::to_string(nodes.size() - i) + ": " + std::string(nodes[i]->name()), shape.str(),
                      "keeps " + std::to_string(bytes_of(*nodes[i])) + " bytes"}});
    if (i > 0) arrows.emplace_back(i, i - 1);
  }
  book::figure("03-tape", book::graph(670, 100, 130, boxes, arrows));
  book::claim(nodes.size() == 4, "four ops leave four nodes");
}

void walk() {
  book::section("walk");
  const Network net;
  const Tensor a = ct::linear(net.x, net.w1, net.b1), h = ct::tanh(a), y = ct::linear(h, net.w2),
               loss = ct::mse_loss(y, net.t);
  const auto say = [](const Tensor& t, const char* name) {
    t.register_hook([name](const Tensor& g) {
      std::ostringstream shape;
      shape << g.shape();
      std::printf("the cotangent of %-4s is complete: %s\n", name, shape.str().c_str());
      return Tensor();
    });
  };
  say(net.w1, "w1"), say(net.b1, "b1"), say(net.w2, "w2"), say(a, "a"), say(h, "h"), say(y, "y"),
      say(loss, "loss");
  loss.backward();
}

void sums() {
  book::section("sum");
  Tensor x = ct::tensor({2.0, 3.0}).set_requires_grad();
  const auto print = [&](const char* when) {
    const std::vector<double> g = x.grad().to_vector<double>();
    std::printf("%-34s %5.1f %5.1f\n", when, g[0], g[1]);
  };
  ct::sum(x * x).backward();
  print("x = (2, 3), used twice in x * x:");
  ct::sum(3 * x).backward();
  print("after another backward, of 3 x:");
  x.set_grad({});
  ct::sum(3 * x).backward();
  print("the same, cleared before:");
}

void overwritten() {
  book::section("overwritten");
  const Tensor x = ct::tensor({0.5, 1.0}).set_requires_grad();
  Tensor y = ct::tanh(x);
  const Tensor loss = ct::sum(y);
  {
    const ct::NoGrad guard;
    y.mul_(2);  // tanh's gradient reads y, which is now another
  }
  try {
    loss.backward();
    book::claim(false, "a gradient of overwritten values is an error");
  } catch (const ct::AutogradError& error) { std::printf("%s\n", error.what()); }
}

void measured() {
  book::section("measured");
  using clock = std::chrono::steady_clock;
  const Tensor a = ct::ones({8}), b = ct::ones({8}).set_requires_grad();
  const auto nanoseconds = [&](const Tensor& left) {
    double least = INFINITY;
    for (int repeat = 0; repeat < 20; ++repeat) {
      const auto start = clock::now();
      for (int i = 0; i < 1000; ++i) ct::add(left, a);
      least = std::min(least, std::chrono::duration<double, std::nano>(clock::now() - start).count() / 1000);
    }
    return least;
  };
  std::printf("add of 8 floats: %.0f ns, recorded %.0f ns\n", nanoseconds(a), nanoseconds(b));
}

void chapter() {
  tape();
  walk();
  sums();
  overwritten();
  measured();
}

}  // namespace

int main() { return book::run(chapter); }
