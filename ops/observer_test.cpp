#include <cotangent/cotangent.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/catch.h"

#include <cotangent/core/op_def.h>

using namespace ct;

namespace {

class Recorder final : public OpObserver {
 public:
  Recorder() : before_(set_op_observer(this)) {}
  ~Recorder() override { set_op_observer(before_); }
  void begin(const KernelCall& call) override { add(call, "("); }
  void end(const KernelCall& call) override {
    add(call, ")");
    if (fail_at_end) throw std::runtime_error("end of " + calls.back());
  }

  std::vector<std::string> calls, shapes;
  std::string fail_at;
  bool fail_at_end = false;

 private:
  void add(const KernelCall& call, const char* what) {
    const std::string text = std::string(call.op.name) + (call.backward ? "'" : "") + what;
    if (text == fail_at) throw std::runtime_error("told to fail");
    calls.push_back(text);
    shapes.push_back(to_string(call.backward ? call.backward->grad().shape() : call.forward->out().shape()));
  }
  OpObserver* before_;
};

using Calls = std::vector<std::string>;

}  // namespace

TEST_CASE("an observer sees forward and backward kernels in their order", "[ops][observer]") {
  const Tensor x = ones({2}).set_requires_grad();
  Recorder recorder;
  const Tensor y = exp(x);
  const Tensor z = y * y;
  CHECK(recorder.calls == Calls{"exp(", "exp)", "mul(", "mul)"});
  CHECK(recorder.shapes.front() == "[2]");
  recorder.calls.clear();
  z.backward(ones({2}), true);
  // The nodes from the last to the first; y's cotangent comes twice and is summed.
  CHECK(recorder.calls == Calls{"mul'(", "mul')", "add(", "add)", "exp'(", "exp')"});
}

TEST_CASE("a kernel that fails has an end, and exceptions of an observer arrive", "[ops][observer]") {
  Tensor x = ones({2}).set_requires_grad();
  Recorder recorder;
  recorder.fail_at = "exp(";
  CHECK_THROWS_WITH(exp(x), "told to fail");
  CHECK(recorder.calls.empty());
  recorder.fail_at = "exp'(";
  const Tensor y = exp(x);
  CHECK_THROWS_WITH(y.backward(ones({2}), true), "told to fail");
  recorder.fail_at.clear();
  recorder.fail_at_end = true;
  CHECK_THROWS_WITH(x + x, "end of add)");
}
