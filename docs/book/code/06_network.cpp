#include <cotangent/cotangent.h>

#include <book.h>
#include <examples/common/svg.h>
#include <network.h>

#include <chrono>
#include <cmath>
#include <sstream>
#include <vector>

// Chapter 6: a network without the library, and the same with it.

namespace {

using book::Matrix;
using book::Network;
using ct::Tensor;

struct Points {
  Matrix x;
  std::vector<std::size_t> labels;
};

/// Two arms that wind around each other, `each` points on either.
Points spirals(std::size_t each) {
  Points points{Matrix(2 * each, 2), std::vector<std::size_t>(2 * each)};
  for (std::size_t i = 0; i < 2 * each; ++i) {
    const double t = static_cast<double>(i / 2 + 1) / static_cast<double>(each);
    const double angle = 4.5 * t + (i % 2 ? 3.14159265358979 : 0);
    points.x(i, 0) = t * std::cos(angle), points.x(i, 1) = t * std::sin(angle);
    points.labels[i] = i % 2;
  }
  return points;
}

/// Values between -1 and 1 over sqrt(in), from the library's generator: the same on every machine.
void fill(Matrix& w) {
  const std::vector<double> u =
      ct::rand({static_cast<std::int64_t>(w.values.size())}, {.dtype = ct::f64}).to_vector<double>();
  for (std::size_t i = 0; i < u.size(); ++i)
    w.values[i] = (2 * u[i] - 1) / std::sqrt(static_cast<double>(w.columns));
}

Network fresh(std::size_t hidden) {
  ct::manual_seed(3);
  Network net(2, hidden, 2);
  fill(net.w1), fill(net.w2);
  fill(net.b1);
  return net;
}

Tensor tensor_of(const Matrix& m) {
  return ct::from_vector(m.values, {static_cast<std::int64_t>(m.rows), static_cast<std::int64_t>(m.columns)});
}

double accuracy(const Network& net, const Points& points) {
  const Matrix y = net.scores(points.x);
  double right = 0;
  for (std::size_t r = 0; r < y.rows; ++r) right += (y(r, 1) > y(r, 0) ? 1u : 0u) == points.labels[r];
  return right / static_cast<double>(y.rows);
}

/// The same steps by the library's ops and its tape.
std::vector<double> library_losses(const Network& start, const Points& points, double rate, int steps) {
  std::vector<Tensor> p;
  for (const Matrix* m : {&start.w1, &start.b1, &start.w2, &start.b2})
    p.push_back(tensor_of(*m).set_requires_grad());
  const std::vector<std::int64_t> labels(points.labels.begin(), points.labels.end());
  const Tensor x = tensor_of(points.x), t = ct::from_vector(labels);
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const Tensor h = ct::relu(ct::matmul(x, p[0].t()) + p[1]);
    const Tensor loss = ct::cross_entropy(ct::matmul(h, p[2].t()) + p[3], t);
    loss.backward();
    losses.push_back(loss.item<double>());
    const ct::NoGrad guard;  // the step itself is no part of the next loss
    for (Tensor& q : p) q.sub_(q.grad() * rate), q.set_grad({});
  }
  return losses;
}

void twins() {
  book::section("twins");
  const Points points = spirals(50);
  Network net = fresh(16);
  const std::vector<double> theirs = library_losses(net, points, 0.5, 20);
  for (int step = 0; step < 20; ++step) {
    const double ours = net.step(points.x, points.labels, 0.5);
    if (step % 5 == 0 || step == 19)
      std::printf("step %2d  by hand %.8f  library %.8f\n", step, ours,
                  theirs[static_cast<std::size_t>(step)]);
    book::claim(std::abs(ours - theirs[static_cast<std::size_t>(step)]) < 1e-10,
                "the losses are equal to 1e-10");
  }
}

void picture(const Network& net, const Points& points) {
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 360 360'>\n<rect width='100%' height='100%' "
         "fill='#fbe3d6'/>\n";
  const int cells = 60;
  Matrix x(1, 2);
  for (int i = 0; i < cells; ++i)
    for (int j = 0; j < cells; ++j) {
      x(0, 0) = (j + 0.5) / cells * 2.4 - 1.2, x(0, 1) = 1.2 - (i + 0.5) / cells * 2.4;
      const Matrix y = net.scores(x);
      if (y(0, 1) > y(0, 0))
        out << "<rect x='" << j * 6 << "' y='" << i * 6 << "' width='6' height='6' fill='#d6e4f7'/>\n";
    }
  for (std::size_t r = 0; r < points.x.rows; ++r)
    out << "<circle cx='" << std::lround((points.x(r, 0) + 1.2) * 150) << "' cy='"
        << std::lround((1.2 - points.x(r, 1)) * 150) << "' r='3.5' fill='"
        << (points.labels[r] ? "#36a" : "#c63") << "'/>\n";
  book::figure("06-spirals", out.str() + "</svg>\n");
}

void learns() {
  book::section("learns");
  const Points points = spirals(50);
  Network net = fresh(32);
  for (int step = 0; step <= 4000; ++step) {
    const double loss = net.step(points.x, points.labels, 0.5);
    if (step == 0 || step == 100 || step == 1000 || step == 4000)
      std::printf("step %4d  loss %.3f  right %3.0f %%\n", step, loss, 100 * accuracy(net, points));
  }
  book::claim(accuracy(net, points) > 0.97, "the arms are told apart");
  picture(net, points);
}

void measured() {
  book::section("measured");
  using clock = std::chrono::steady_clock;
  const Points points = spirals(500);
  Network net = fresh(256);
  const auto start = clock::now();
  library_losses(net, points, 0.1, 20);
  const auto middle = clock::now();
  for (int step = 0; step < 20; ++step) net.step(points.x, points.labels, 0.1);
  const auto end = clock::now();
  const auto milli = [](clock::duration d) {
    return std::chrono::duration<double, std::milli>(d).count() / 20;
  };
  std::printf("1000 points, 256 hidden numbers, f64, a step: by hand %.2f ms, library %.2f ms\n",
              milli(end - middle), milli(middle - start));
}

void chapter() {
  twins();
  learns();
  measured();
}

}  // namespace

int main() { return book::run(chapter); }
