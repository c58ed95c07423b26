#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/core/device/in_call.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/fusion/build_internal.h>

#include "tests/catch.h"
#include "tests/program_testing.h"

using namespace ct;
using testing::first_difference;
using testing::pointers;

namespace {

// Whether the last two arguments are p and q, or nameless: cuda_text() looks for these names in the formula.
bool ends_with_numbers(std::string_view names) {
  for (const std::string_view number : {" q", " p"}) {
    if (names.ends_with(number)) names.remove_suffix(2);
    if (!names.ends_with('X')) return false;
    names = names.substr(0, names.rfind(','));
  }
  return true;
}

// Formulas and gradients of all ops beside the ops themselves, on contiguous tensors: as many to a program as it has outputs.
class Beside {
 public:
  Beside(DType dtype, Device device) : dtype_(dtype) {
    for (int i = 0; i < 3; ++i) {
      std::vector<double> v = testing::values(testing::waves({4096}, 1.3 * i, 1 + 2 * i));
      const double odd[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 1e-30, -1, 1};
      for (std::size_t k = 0; k < 64; ++k) v[static_cast<std::size_t>(i) * 3 + k] = odd[(k + k / 8 * i) % 8];
      inputs_.push_back(testing::values({4096}, v, dtype).to(device));
    }
    inputs_.push_back(gt(inputs_[1], 0));
    start();
  }

  void add(const OpDef& op, const map::MapRecord& record) {
    std::vector<int> at{0, 1, 2};
    if (std::string_view(op.name).starts_with("where")) at = {3, 0, 1};
    at.resize(record.y.inputs);
    const map::Parameters numbers{0.5, 1};
    std::vector<Tensor> leaves;
    for (const int k : at) {
      const Tensor& t = inputs_[static_cast<std::size_t>(k)];
      leaves.push_back(is_floating(t.dtype()) ? t.detach().set_requires_grad() : t);
    }
    std::vector<Tensor> y(1);
    dispatch(op, pointers(leaves), numbers, y);
    const auto rough = [&](const map::FormulaRecord& formula) {
      builder_.rough = is_low_precision(dtype_) && formula.tiles->f32 && !formula.tiles->predicate;
    };
    rough(record.y);
    if (is_unsteady(record.y)) return;
    const int value = builder_.call(op, numbers, at, y[0].dtype());
    if (value < 0) return;
    want(value, op.name, y[0]);
    for (std::size_t k = 0; k < leaves.size() && y[0].requires_grad(); ++k) {
      if (!leaves[k].requires_grad() || record.gradient[k].formula.text.empty() ||
          is_unsteady(record.gradient[k].formula))
        continue;
      rough(record.gradient[k].formula);
      const int dx = builder_.gradient(op, numbers, at, value, static_cast<int>(k), 2, dtype_);
      if (dx >= 0)
        want(dx, std::string(op.name) + "'",
             grad({y[0]}, {leaves[k]}, {inputs_[2]}, {.retain_graph = true})[0]);
    }
    if (wanted_.size() > map::chain::kMaxOutputs - 4) check();
  }
  void check() {
    const map::chain::Program p = builder_.finish(std::exchange(values_, {}), true);
    std::vector<Tensor> got;
    for (const Tensor& t : wanted_) got.push_back(empty_like(t));
    {
      const detail::InCall inside;
      REQUIRE(map::chain::run(p, pointers(got), pointers(inputs_)));
    }
    for (std::size_t m = 0; m < got.size(); ++m) {
      INFO(names_[m] << ", " << name(dtype_));
      CHECK(first_difference(got[m].to(cpu), wanted_[m].detach().to(cpu)) == -1);
      ++checked;
    }
    wanted_.clear(), names_.clear();
    start();
  }
  int checked = 0;

 private:
  bool is_unsteady(const map::FormulaRecord& f) const {
    return inputs_[0].is_cuda() && map::chain::steadiness(f.text, dtype_) == map::chain::Steady::nowhere;
  }
  void start() {
    builder_ = {};
    for (const Tensor& t : inputs_) builder_.input(t.dtype());
  }
  void want(int value, std::string op, const Tensor& t) {
    values_.push_back(value), names_.push_back(std::move(op)), wanted_.push_back(t);
  }

  const DType dtype_;
  std::vector<Tensor> inputs_, wanted_;
  fusion::Builder builder_;
  std::vector<int> values_;
  std::vector<std::string> names_;
};

void check_formulas(Device device) {
  for (const OpDef* const op : registry())
    if (const map::MapRecord* const record = map::formulas_of(*op)) {
      INFO(op->name);
      CHECK(ends_with_numbers(record->y.names));
      for (int k = 0; k < record->gradients; ++k)
        if (!record->gradient[k].formula.names.empty())
          CHECK(ends_with_numbers(record->gradient[k].formula.names));
    }
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    Beside beside(dtype, device);
    for (const OpDef* const op : registry())
      if (const map::MapRecord* const record = map::formulas_of(*op); record && !record->y.draws)
        beside.add(*op, *record);
    beside.check();
    CHECK(beside.checked > (device.is_cuda() && dtype == DType::f64 ? 15 : 150));
  }
}

}  // namespace

TEST_CASE("Every formula has the bits of its op among other steps", "[fuse]") { check_formulas(cpu); }
TEST_CASE("Every formula has the bits of its op among other steps on a GPU", "[fuse][cuda]") {
  check_formulas(cuda(0));
}
