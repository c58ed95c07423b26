#include <cotangent/cotangent.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"

#include <cotangent/core/op/op_def.h>

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

TEST_CASE("backward makes no zeros for outputs that have no gradient", "[ops][observer]") {
  const Tensor x = ones({2, 3}).set_requires_grad(), labels = zeros({2}, {.dtype = i64});
  Recorder recorder;
  cross_entropy(x, labels).backward();
  CHECK(recorder.calls ==
        Calls{"cross_entropy(", "cross_entropy)", "fill(", "fill)", "cross_entropy'(", "cross_entropy')"});
}

TEST_CASE("an observer sees forward and backward kernels in their order", "[ops][observer]") {
  const Tensor x = ones({2}).set_requires_grad();
  Recorder recorder;
  const Tensor y = exp(x);
  const Tensor z = y * y;
  CHECK(recorder.calls == Calls{"exp(", "exp)", "mul(", "mul)"});
  CHECK(recorder.shapes.front() == "[2]");
  const Tensor gz = ones({2});
  recorder.calls.clear();
  z.backward(gz, true);
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

namespace {

// The names of the calls that `work` makes.
template <class Work>
Calls calls_of(const Work& work) {
  Recorder recorder;
  work();
  Calls names;
  for (const std::string& call : recorder.calls)
    if (call.back() == '(') names.push_back(call.substr(0, call.size() - 1));
  return names;
}

}  // namespace

TEST_CASE("a call is shown with the copies that its kernel gets", "[ops][observer]") {
  struct Layouts final : Tracer {
    bool begin(const KernelCall& call) override {
      const Tensor& t = call.forward ? call.forward->in(0) : call.backward->grad();
      seen.push_back(std::string(call.op.name) + (t.is_contiguous() ? " packed" : " strided"));
      return false;
    }
    void end(const KernelCall&) override {}
    Calls seen;
  } layouts;
  const Tensor x = ones({2, 3}, {.dtype = f64}).t(), g = ones({2, 3}, {.dtype = f64}).t();
  Tensor leaf = x.detach();
  leaf.set_requires_grad();
  const TracerScope scope(layouts);
  const Tensor y = softmax(leaf, 1);
  CHECK(layouts.seen == Calls{"copy strided", "softmax packed"});
  layouts.seen.clear();
  y.backward(g);
  CHECK(layouts.seen == Calls{"copy strided", "softmax packed"});
}

TEST_CASE("what works on tensors beside ops is calls, too", "[ops][observer]") {
  const Tensor x = ones({3, 4});
  Tensor t = zeros({3, 4});
  Generator generator(1);
  const auto one = [](const char* name) { return Calls{name}; };
  CHECK(calls_of([] { zeros({2}); }) == one("fill"));
  CHECK(calls_of([] { full({2}, 3); }) == one("fill"));
  CHECK(calls_of([] { eye(3); }) == Calls{"fill", "fill"});
  CHECK(calls_of([] { arange(5); }) == one("sequence"));
  CHECK(calls_of([] { linspace(0, 1, 5); }) == one("sequence"));
  CHECK(calls_of([&] { randn({2}, {}, generator); }) == one("draw"));
  CHECK(calls_of([&] { t.uniform_(0, 1, generator); }) == one("draw"));
  CHECK(calls_of([&] { t.t().normal_(0, 1, generator); }) == Calls{"draw", "assign"});
  CHECK(calls_of([&] { t.fill_(2); }) == one("fill"));
  CHECK(calls_of([&] { t.copy_(x); }) == one("assign"));
  CHECK(calls_of([&] { x.t().to_vector<double>(); }) == one("copy"));
  CHECK(calls_of([] { nn::Linear(2, 3); }) ==
        Calls{"draw", "mul_scalar", "add_scalar", "draw", "mul_scalar", "add_scalar"});
}

TEST_CASE("a step's optimizer, clipping, averages and scaler are calls", "[ops][observer]") {
  nn::Linear layer(3, 2);
  optim::AdamW adam(layer.parameters(), {.lr = 0.1});
  optim::Ema ema(layer.parameters());
  optim::GradScaler scaler;
  scaler.scale(layer(ones({4, 3})).sum()).backward();
  CHECK(calls_of([&] { scaler.unscale_(adam); }) == Calls{"fill", "unscale"});
  CHECK(calls_of([&] { optim::clip_grad_norm_(layer.parameters(), 1); }) ==
        Calls{"total_norm", "clip_to_norm"});
  CHECK(calls_of([&] { optim::clip_grad_value_(layer.parameters(), 1); }) == Calls{"clip_values"});
  const Calls stepped = calls_of([&] { scaler.step(adam); });
  CHECK(std::count(stepped.begin(), stepped.end(), "adam_step") == 1);
  CHECK(calls_of([&] { scaler.update(); }) == Calls{"update_scale"});
  CHECK(calls_of([&] { ema.update(); }) == Calls{"average_step"});
  CHECK(calls_of([&] { adam.zero_grad(false); }) == Calls{"fill", "fill"});
  // Its tensors: learning rate and step counts; weight and bias, each with gradient and two moments.
  struct Tensors final : Tracer {
    bool begin(const KernelCall& call) override {
      for (const Tensor* t : call.forward->inputs) inputs += t->defined();
      outputs += call.forward->outputs.size();
      return false;
    }
    void end(const KernelCall&) override {}
    std::size_t inputs = 0, outputs = 0;
  } tensors;
  const TracerScope scope(tensors);
  adam.step();
  CHECK(tensors.inputs == 10);
  CHECK(tensors.outputs == 7);
}

namespace {

class Link final : public Tracer {
 public:
  Link(std::string name, Calls& log) : name_(std::move(name)), log_(log) {}
  bool begin(const KernelCall&) override {
    if (fails) throw std::runtime_error(name_);
    log_.push_back(name_ + "(");
    return false;
  }
  void end(const KernelCall&) override { log_.push_back(name_ + ")"); }

  bool fails = false;

 private:
  std::string name_;
  Calls& log_;
};

}  // namespace

TEST_CASE("tracers are a chain, of which one can have a call", "[ops][observer]") {
  const Tensor x = ones({2});
  Calls log;
  Link a("a", log), b("b", log);
  {
    const TracerScope outer(a);
    {
      const TracerScope inner(b);
      exp(x);
      CHECK(log == Calls{"a(", "b(", "b)", "a)"});
      log.clear();
      std::thread([&] { exp(x); }).join();  // another thread's chain is another
      CHECK(log.empty());
      b.fails = true;
      CHECK_THROWS_WITH(exp(x), "b");
      CHECK(log == Calls{"a(", "a)"});
      b.fails = false;
    }
    log.clear();
    exp(x);
    CHECK(log == Calls{"a(", "a)"});
  }
  log.clear();
  exp(x);
  CHECK(log.empty());

  struct Seven final : Tracer {
    bool begin(const KernelCall& call) override {
      if (call.op.name != std::string("exp")) return false;
      float* const y = call.forward->out().data<float>();
      y[0] = y[1] = 7;
      return true;
    }
    void end(const KernelCall&) override { ++ends; }
    int ends = 0;
  } seven;
  const TracerScope scope(seven);
  CHECK(exp(x).to_vector<float>() == std::vector<float>{7, 7});
  CHECK(seven.ends >= 1);
}
