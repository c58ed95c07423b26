#include <cotangent/cotangent.h>
#include <cotangent/nn/plugin/each_element.h>
#include <cotangent/nn/plugin/load_op.h>
#include <cotangent/ops/testing/conformance.h>
#include <cotangent/ops/testing/gradcheck.h>

#include <book.h>
#include <examples/common/svg.h>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

// Chapter 14: an op of one's own, loaded while the program runs, and what finds the faults that were planted in it.

namespace {

using ct::Tensor;

/// The op's attributes as bump's op.cpp has them: a program that loads an op hands over a struct of the same fields.
struct Attrs {
  double a = 1;
};

// y = 1 / (1 + a x^2) and two derivatives of it, on paper.
double value(double a, double x) { return 1 / (1 + a * x * x); }
double slope(double a, double x) { return -2 * a * x * value(a, x) * value(a, x); }
double bend(double a, double x) {
  const double y = value(a, x);
  return 2 * a * y * y * (4 * a * x * x * y - 1);
}

/// Compiles the folder, if the cache does not have it, and takes it into this program.
ct::LoadedOp load() {
  const std::string code = __FILE__;
  return ct::load_op(code.substr(0, code.rfind("/docs/")) + "/examples/custom_op/bump");
}

void loaded(const ct::LoadedOp& bump) {
  book::section("loaded");
  Tensor x = ct::tensor({-1.0, 0.0, 0.5, 2.0}, {.dtype = ct::f64});
  x.set_requires_grad();
  const Tensor y = bump({x}, Attrs{2});
  const Tensor dx = ct::grad({y.sum()}, {x}, {}, {.create_graph = true})[0];
  const Tensor ddx = ct::grad({dx.sum()}, {x})[0];
  std::printf("%s: %s\n", bump.op->name, bump.op->formula);
  std::printf("     x        y    dy/dx  d2y/dx2   with a = 2\n");
  for (std::size_t i = 0; i < 4; ++i) {
    const double at = x.to_vector<double>()[i];
    const double found[] = {y.to_vector<double>()[i], dx.to_vector<double>()[i], ddx.to_vector<double>()[i]};
    std::printf("%6.2f %8.4f %8.4f %8.4f\n", at, found[0], found[1] + 0.0, found[2]);
    book::claim(std::abs(found[0] - value(2, at)) < 1e-12, "the kernel has the formula");
    book::claim(std::abs(found[1] - slope(2, at)) < 1e-12, "the backward kernel has its derivative");
    book::claim(std::abs(found[2] - bend(2, at)) < 1e-12, "the rule has the derivative's");
  }
  book::claim(ct::find_op("bump") == bump.op, "the registry has it");
  std::printf("kept for backward: %s\n", bump.op->inputs[0].needs);
}

void picture() {
  svg::Curve y{"y", "#36a", {}, {}}, dy{"dy/dx", "#c33", {}, {}}, ddy{"second", "#393", {}, {}};
  for (double x = -4; x <= 4; x += 0.0625) {
    for (svg::Curve* curve : {&y, &dy, &ddy}) curve->x.push_back(x);
    y.y.push_back(value(1, x)), dy.y.push_back(slope(1, x)), ddy.y.push_back(bend(1, x));
  }
  book::figure("14-bump", svg::chart("1 / (1 + x^2)", "x", "value", {y, dy, ddy}));
}

// Kernels and rules, each with a fault that compiles.

/// The factor 2 is forgotten.
void half_backward(const ct::Backward& b) {
  const auto dx = [a = b.attrs<Attrs>().a]<class C>(C x, C y, C g) { return C(-a) * x * y * y * g; };
  ct::each_element(b.op.name, b.grad_in(0), dx, b.in(0), b.out(), b.grad());
}

/// Four elements at a time, and the rest is forgotten: it stays 0.
void forward_by_four(const ct::Forward& f) {
  Tensor y = f.out();
  ct::visit_floating(f.op.name, y.dtype(), [&]<class T>(ct::TypeTag<T>) {
    const T* const x = f.in(0).data<T>();
    const auto a = static_cast<ct::compute_t<T>>(f.attrs<Attrs>().a);
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      const ct::compute_t<T> at = x[i];
      y.data<T>()[i] = i < y.numel() / 4 * 4 ? T(1 / (1 + a * at * at)) : T(0.f);
    }
  });
}

/// Computes in f32, whatever the dtype.
void backward_in_f32(const ct::Backward& b) {
  const auto dx = [a = b.attrs<Attrs>().a]<class C>(C x, C y, C g) {
    const auto narrow = static_cast<float>(x), of_y = static_cast<float>(y);
    return C(static_cast<float>(-2 * a) * narrow * of_y * of_y * static_cast<float>(g));
  };
  ct::each_element(b.op.name, b.grad_in(0), dx, b.in(0), b.out(), b.grad());
}

/// y where y^2 belongs.
void wrong_rule(const ct::Backward& b) {
  b.set_grad_in(0, -2 * b.attrs<Attrs>().a * b.in(0) * b.out() * b.grad());
}

/// The right gradient by values that are off the tape: its own derivative is lost.
void detached_rule(const ct::Backward& b) {
  b.set_grad_in(0, -2 * b.attrs<Attrs>().a * b.in(0) * ct::square(b.out()).detach() * b.grad());
}

/// A failure without its sample, its place and its tolerance.
std::string short_text(const std::string& failure) {
  const std::size_t begin = failure.find(": ") + 2;
  return failure.substr(begin, failure.find(" (", failure.find(" is ")) - begin);
}

void faults(const ct::LoadedOp& bump) {
  book::section("faults");
  struct Fault {
    const char* name;
    void (*plant)(ct::OpDef&);
    const char* only;  // the dtype that alone shows it
  };
  const Fault planted[] = {
      {"none", [](ct::OpDef&) {}, nullptr},
      {"forward by fours", [](ct::OpDef& op) { op.cpu.forward = forward_by_four; }, nullptr},
      {"backward without the 2", [](ct::OpDef& op) { op.cpu.backward = half_backward; }, nullptr},
      {"backward in f32 alone", [](ct::OpDef& op) { op.cpu.backward = backward_in_f32; }, "f64"},
      {"rule with y for y^2", [](ct::OpDef& op) { op.rule = wrong_rule; }, nullptr},
      {"rule half off the tape", [](ct::OpDef& op) { op.rule = detached_rule; }, "f64"},
  };
  for (const auto& [name, plant, only] : planted) {
    ct::OpDef op = *bump.op;
    plant(op);
    const ct::ConformanceReport report = ct::check_conformance(op, *bump.tests, {.devices = {ct::cpu}});
    book::claim(report.checks > 100, "conformance makes more than a hundred checks");
    std::string dtypes;
    for (const char* dtype : {"f32", "f64", "f16", "bf16"})
      for (const std::string& failure : report.failures)
        if (failure.find(std::string(" in ") + dtype + ":") != std::string::npos) {
          dtypes += std::string(" ") + dtype;
          break;
        }
    std::printf("%-24s%s%s\n", name, report.ok() ? "nothing found" : "found in", dtypes.c_str());
    if (!report.ok()) std::printf("    %s\n", short_text(report.failures[0]).c_str());
    book::claim(report.ok() == (std::string(name) == "none"), "each fault is found, and no other");
    book::claim(only == nullptr || dtypes == std::string(" ") + only, "that fault shows in one dtype alone");
  }
}

/// Tensors of x's size that pass through memory, forward and backward, by each op's statement of its cost.
template <class F>
double tensors_moved(const Tensor& x, F&& f) {
  const Tensor g = ct::ones_like(x.detach());
  const ct::Profile profile = ct::profile([&] { ct::grad({f()}, {x}, {g}); });
  double bytes = 0;
  for (const ct::Profile::Call& call : profile.calls)
    if (call.parent < 0) bytes += call.bytes;
  return bytes / static_cast<double>(x.numel()) / sizeof(float);
}

void moved(const ct::LoadedOp& bump) {
  book::section("moved");
  Tensor x = ct::randn({1 << 16});
  x.set_requires_grad();
  const double one = tensors_moved(x, [&] { return bump({x}, Attrs{2}); });
  const double four = tensors_moved(x, [&] { return 1 / (1 + 2 * ct::square(x)); });
  std::printf("tensors of x's size, read or written, forward and backward\n");
  std::printf("one op                %2.0f\n1 / (1 + 2 square(x)) %2.0f\n", one, four);
  book::claim(one == 6, "x, y; x, y, g, dx");
}

void chapter() {
  using clock = std::chrono::steady_clock;
  const auto start = clock::now();
  const ct::LoadedOp bump = load();
  const auto middle = clock::now();
  load();
  const auto end = clock::now();
  const auto seconds = [](clock::duration d) { return std::chrono::duration<double>(d).count(); };
  loaded(bump);
  picture();
  faults(bump);
  moved(bump);
  book::section("measured");
  std::printf("%s in %.2f s, loaded once more in %.4f s\n", bump.built ? "compiled" : "loaded from the cache",
              seconds(middle - start), seconds(end - middle));
}

}  // namespace

int main() { return book::run(chapter); }
