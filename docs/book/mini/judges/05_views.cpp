#include <cotangent/cotangent.h>

#include <book.h>
#include <judge.h>

#include <mini.h>

// Judges views by addresses, and add_row() by the library and by differences.
// hint: a transposed matrix has its strides exchanged, and its sizes
// hint: a stride of 0 stays where it is
// hint: a number that was read N times collects N shares: db_j is the sum of g's column j
// wrong: {data, columns, rows, right, down} ==> {data, columns, rows, down, right}
// wrong: b.into()[j] += sum(0, n.rows, ==> b.into()[j] += sum(0, 1,

namespace {

using mini::Tensor;

void verdict() {
  const Tensor x = mini::leaf(4, 3, judge::waves(12, 0.7), true),
               b = mini::leaf(1, 3, judge::waves(3, 1.3), true);
  const mini::View v = view(*x), t = v.t(), row = mini::broadcast(b->values, 5);
  book::claim(t.data == v.data && row.data == b->values.data(), "a view copies nothing");
  book::claim(t.rows == 3 && t.columns == 4 && row.rows == 5 && row.columns == 3, "a view has its shape");
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      book::claim(t(j, i) == v(i, j) && row(i, j) == b->values[j], "a view has its elements");

  const auto f = [&] {
    const Tensor y = add_row(x, b);
    return total(mul(y, y));
  };
  backward(f());
  const ct::Tensor p = judge::theirs(*x), q = judge::theirs(*b);
  const ct::Tensor y = p + q;
  ct::sum(y * y).backward();
  std::printf("db_0 %.6f, the library's %.6f\n", b->grad[0], q.grad().to_vector<double>()[0]);
  judge::same(x->grad, p.grad(), "the gradient of x is the library's");
  judge::same(b->grad, q.grad(), "the gradient of b is the library's");
  book::claim(worst_slope(b, f) < 1e-7 && worst_slope(x, f) < 1e-7, "slopes and differences agree");
}

}  // namespace

int main() { return book::run(verdict); }
