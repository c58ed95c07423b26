#include <cotangent/cotangent.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/catch.h"

using namespace ct;

namespace {

class Recorder final : public OpObserver {
 public:
  Recorder() : before_(set_op_observer(this)) {}
  ~Recorder() override { set_op_observer(before_); }
  void begin(const OpDef& op, bool backward) override { add(op, backward, "("); }
  void end(const OpDef& op, bool backward) override {
    add(op, backward, ")");
    if (fail_at_end) throw std::runtime_error("end of " + calls.back());
  }

  std::vector<std::string> calls;
  std::string fail_at;
  bool fail_at_end = false;

 private:
  void add(const OpDef& op, bool backward, const char* what) {
    const std::string call = std::string(op.name) + (backward ? "'" : "") + what;
    if (call == fail_at) throw std::runtime_error("told to fail");
    calls.push_back(call);
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
