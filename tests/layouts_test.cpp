// Tensors that reach kernels contiguous: those that an op's records say, and for plain kernels all.

#include <cotangent/core/op/op_def.h>
#include <cotangent/cotangent.h>
#include <cotangent/ops/dispatch.h>

#include <string>

#include "tests/catch.h"

namespace {

using namespace ct;

std::string seen;  // inputs of the last kernel, a letter each: c for contiguous, s for strided

void look(const Tensor& t) { seen += t.is_contiguous() ? 'c' : 's'; }

void infer(Infer& infer) { infer.output(infer.in(0).shape(), infer.in(0).dtype()); }

void forward(const Forward& f) {
  seen.clear();
  for (int i = 0; i < 4; ++i) look(f.in(i));
  f.out().zero_();
}

void backward(const Backward& b) {
  seen.clear();
  for (int i = 0; i < 4; ++i) look(b.in(i));
  look(b.grad());
  for (int i = 0; i < 4; ++i)
    if (b.needs(i)) b.grad_in(i).zero_();
}

bool rows_lie_together(const Tensor& t) { return t.stride(-1) == 1; }

constexpr const char* kAll = "any packed rows saved";
constexpr InputDef kInputs[] = {
    {.name = "any", .needs = kAll},
    {.name = "packed", .needs = kAll, .contiguous = true},
    {.name = "rows", .needs = kAll, .contiguous = true, .readable = rows_lie_together},
    {.name = "saved", .needs = kAll, .contiguous_saved = true},
};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true, .readable = rows_lie_together}};
constexpr OpDef k_look = checked({.name = "user_look",
                                  .formula = "0",
                                  .inputs = kInputs,
                                  .outputs = kOutputs,
                                  .infer = infer,
                                  .cpu = {forward, backward},
                                  .plain = {forward, backward},
                                  .no_rule = "it stands in a test"});

std::string layouts(const Tensor& t, const Tensor& cotangent, bool back) {
  Tensor x = t.detach();
  x.set_requires_grad(true);
  const Tensor y = dispatch(k_look, {x, x, x, x});
  if (back) y.backward(cotangent);
  return seen;
}

}  // namespace

TEST_CASE("kernels get contiguous what their op's records say, plain kernels everything", "[ops]") {
  const Tensor whole = zeros({4, 6}), turned = zeros({6, 4}).t(), part = zeros({4, 8}).narrow(1, 1, 6);
  CHECK(layouts(whole, whole, false) == "cccc");
  CHECK(layouts(turned, whole, false) == "sccs");
  CHECK(layouts(part, whole, false) == "scss");
  CHECK(layouts(turned, turned, true) == "scccc");
  CHECK(layouts(part, part, true) == "scscs");
  // In f64 the plain kernels run.
  const Tensor wide = zeros({6, 4}, {.dtype = f64}).t(),
               wide_part = zeros({4, 8}, {.dtype = f64}).narrow(1, 1, 6);
  CHECK(layouts(wide, wide, false) == "cccc");
  CHECK(layouts(wide, wide, true) == "ccccc");
  CHECK(layouts(wide_part, wide_part, true) == "ccccc");
}
