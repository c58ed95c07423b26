#include <cotangent/cotangent.h>

#include <book.h>
#include <judge.h>

#include <mini.h>

// Judges record() and release() by what is still there.
// hint: a node wants a gradient if one of its inputs does; one that wants none keeps neither inputs nor back
// hint: a std::shared_ptr that is moved out of inputs into a list keeps its node alive until the list is through with it
// wrong: if (recording && wanted) ==> if (wanted)
// wrong: if (recording && wanted) ==> if (recording || wanted)
// wrong: for (Tensor& in : n->inputs) left.push_back(std::move(in)); ==> (void)left;

namespace {

using mini::Tensor;

Tensor twice(const Tensor& x) {
  return mini::record(1, 1, {2 * x->values[0]}, {x},
                      [](const mini::Node& n) { n.inputs[0]->into()[0] += 2 * n.grad[0]; });
}

void verdict() {
  const Tensor p = mini::leaf(1, 1, {3}, true);
  std::weak_ptr<mini::Node> data, middle;
  Tensor y;
  {
    const Tensor x = mini::leaf(1, 1, {1});
    data = x, y = twice(x);
  }
  book::claim(data.expired() && !y->wants_grad && y->inputs.empty() && !y->back,
              "what was computed from data alone holds on to nothing");
  {
    const mini::NoGrad guard;
    book::claim(!twice(p)->wants_grad, "nothing is recorded below a NoGrad");
  }
  {
    const Tensor h = twice(p);
    middle = h, y = twice(h);
  }
  book::claim(!middle.expired() && y->inputs.size() == 1 && y->number > p->number,
              "a loss holds on to the nodes behind it, and is younger than they");
  backward(y);
  std::printf("d(4 p)/dp = %g\n", p->grad[0]);
  book::claim(p->grad[0] == 4, "the walk goes by what was recorded");
  const ct::Tensor q = ct::tensor(3.0, {.dtype = ct::f64}).set_requires_grad();
  ct::Tensor(q * 2 * 2).backward();
  book::claim(q.grad().item() == p->grad[0], "the slope is the library's");
  mini::release(y);
  book::claim(middle.expired(), "after release() nodes that nobody else holds are gone");
  book::claim(y->values[0] == 12 && p->grad[0] == 4, "values and gradients stay");

  Tensor chain = p;
  for (int i = 0; i < 300'000; ++i) {
    chain = twice(chain);
    chain->values[0] = 1;
  }
  middle = chain->inputs[0];
  mini::release(chain);
  std::printf("a chain of 300,000 nodes %s\n", middle.expired() ? "is gone" : "is still there");
  book::claim(middle.expired(), "a long chain goes, too");
}

}  // namespace

int main() { return book::run(verdict); }
