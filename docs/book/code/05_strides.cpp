#include <cotangent/cotangent.h>

#include <book.h>
#include <examples/common/svg.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

// Chapter 5: one memory, many tensors; broadcasting repeats, its gradient adds up.

namespace {

using ct::Tensor;

template <class T>
std::string text(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

/// Place of element (i, j): offset + i stride_0 + j stride_1.
double element(const double* memory, std::int64_t offset, const ct::Strides& strides, std::int64_t i,
               std::int64_t j) {
  return memory[offset + i * strides[0] + j * strides[1]];
}

struct View {
  const char* name;
  Tensor tensor;
};

std::vector<View> views(const Tensor& a) {
  return {{"a", a},
          {"a.t()", a.t()},
          {"a.slice(1, 0, 4, 2)", a.slice(1, 0, 4, 2)},
          {"a.narrow(0, 1, 2)", a.narrow(0, 1, 2)},
          {"a[1].expand(3, 4)", a[1].expand(3, 4)}};
}

void strides() {
  book::section("strides");
  const Tensor a = ct::arange(12, {.dtype = ct::f64}).view(3, 4);
  const double* const memory = a.data<double>();
  std::printf("%-20s %-8s %-8s offset  [1, 1]\n", "view", "shape", "strides");
  for (const auto& [name, v] : views(a)) {
    const double found = element(memory, v.storage_offset(), v.strides(), 1, 1);
    std::printf("%-20s %-8s %-8s %6lld %7.0f\n", name, text(v.shape()).c_str(), text(v.strides()).c_str(),
                static_cast<long long>(v.storage_offset()), found);
    book::claim(found == v[1][1].item(), "offset and strides lead to the element");
    book::claim(v.impl()->storage == a.impl()->storage, "no element was copied");
  }
}

/// The cells of a's memory, and which of them each view reaches.
void picture() {
  const Tensor a = ct::arange(12, {.dtype = ct::f64}).view(3, 4);
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 680 250' font-family='sans-serif' "
         "font-size='12'>\n"
         "<rect width='100%' height='100%' fill='white'/>\n";
  double y = 14;
  for (const auto& [name, v] : views(a)) {
    std::vector<std::string> reached(12);
    for (std::int64_t i = 0; i < v.size(0); ++i)
      for (std::int64_t j = 0; j < v.size(1); ++j) {
        std::string& cell =
            reached[static_cast<std::size_t>(v.storage_offset() + i * v.stride(0) + j * v.stride(1))];
        cell = cell.empty() ? std::to_string(i) + "," + std::to_string(j) : "*," + std::to_string(j);
      }
    out << "<text x='8' y='" << y + 20 << "'>" << svg::escaped(name) << "</text>\n";
    for (int cell = 0; cell < 12; ++cell) {
      const double x = 170 + 42 * cell;
      const std::string& label = reached[static_cast<std::size_t>(cell)];
      out << "<rect x='" << x << "' y='" << y << "' width='40' height='30' stroke='#557' fill='"
          << (label.empty() ? "#fff" : "#d6e4f7") << "'/><text x='" << x + 20 << "' y='" << y + 20
          << "' text-anchor='middle'>" << label << "</text>\n";
    }
    y += 46;
  }
  book::figure("05-views", out.str() + "</svg>\n");
}

/// Row b [3] added to each row of a [2, 3], and back: each element of b was used by every row, so it gets the sum.
void broadcast() {
  book::section("broadcast");
  const Tensor a = ct::zeros({2, 3}).set_requires_grad();
  const Tensor b = ct::tensor({10.0, 20.0, 30.0}).set_requires_grad();
  const Tensor y = a + b, g = ct::tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  y.backward(g);
  std::cout << "y  = " << y.detach() << "\ng  = " << g << "\nda = " << a.grad() << "\ndb = " << b.grad()
            << std::endl;
  book::claim(b.grad().equal(ct::tensor({5.0, 7.0, 9.0})), "db is the sum of g over the rows");
}

/// A view of a view of a view, drawn at random.
Tensor random_view(Tensor x) {
  for (int i = 0; i < 3; ++i) {
    const auto kind = static_cast<int>(ct::randint(0, 4, {1}).item());
    if (kind == 0) x = x.t();
    if (kind == 1) x = x.slice(0, 0, INT64_MAX, 2);
    if (kind == 2) x = x.narrow(1, x.size(1) / 2, 1);
    if (kind == 3) x = x.select(0, 0).expand(3, x.size(1));
  }
  return x;
}

/// <Px, g> and <x, P^T g> for views P, with P^T g from the tape.
void adjoint() {
  book::section("adjoint");
  struct Case {
    const char* name;
    std::function<Tensor(const Tensor&)> P;
  };
  const std::vector<Case> cases = {
      {"t()", [](const Tensor& x) { return x.t(); }},
      {"slice, every second", [](const Tensor& x) { return x.slice(1, 0, 6, 2); }},
      {"expand to 5 copies", [](const Tensor& x) { return x.unsqueeze(0).expand(5, 4, 6); }},
      {"overlapping windows", [](const Tensor& x) { return x.unfold(1, 3, 1); }},
      {"diagonal", [](const Tensor& x) { return x.diagonal(); }},
      {"three, at random", random_view},
  };
  ct::manual_seed(1);
  double worst = 0;
  for (const auto& [name, P] : cases) {
    for (int draw = 0; draw < 20; ++draw) {
      const Tensor x = ct::randn({4, 6}, {.dtype = ct::f64}).set_requires_grad(), y = P(x);
      const Tensor g = ct::randn(y.shape(), {.dtype = ct::f64});
      y.backward(g);
      const double one = ct::sum(y.detach() * g).item(), other = ct::sum(x.detach() * x.grad()).item();
      worst = std::max(worst, std::abs(one - other));
    }
    std::printf("%-20s <Px, g> = <x, P^T g> for 20 draws\n", name);
    book::claim(worst < 1e-12, "both products are equal to 1e-12");
  }
}

void measured() {
  book::section("measured");
  using clock = std::chrono::steady_clock;
  const Tensor a = ct::ones({4096, 4096});
  const auto best = [](const auto& f) {
    double least = INFINITY;
    for (int i = 0; i < 5; ++i) {
      const auto start = clock::now();
      f();
      least = std::min(least, std::chrono::duration<double, std::milli>(clock::now() - start).count());
    }
    return least;
  };
  // The same 2^24 additions: along the memory, and 16 KiB further on with every step.
  const auto walk = [&](std::int64_t outer, std::int64_t inner) {
    const float* const x = a.data<float>();
    float total = 0;
    for (std::int64_t i = 0; i < 4096; ++i)
      for (std::int64_t j = 0; j < 4096; ++j) total += x[i * outer + j * inner];
    book::claim(total > 0, "a sum of ones is positive");
  };
  const double view = best([&] { a.t(); });
  const double copy = best([&] { a.t().contiguous(); });
  const double rows = best([&] { walk(4096, 1); }), columns = best([&] { walk(1, 4096); });
  std::printf("4096 x 4096 floats: t() %.4f ms, t().contiguous() %.0f ms\n", view, copy);
  std::printf("one loop over all of them: in the order of the memory %.0f ms, along columns %.0f ms\n", rows,
              columns);
}

void chapter() {
  strides();
  picture();
  broadcast();
  adjoint();
  measured();
}

}  // namespace

int main() { return book::run(chapter); }
