#include <cotangent/nn/explain/explain.h>

#include <cotangent/cotangent.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include "tests/autograd_testing.h"
#include "tests/catch.h"

using namespace ct;
using testing::leaf;
using testing::message_of;

namespace {

// README's network, and its loss.
struct Xor {
  Xor() {
    manual_seed(1);
    model = nn::Sequential(nn::Linear(2, 16), nn::Tanh(), nn::Linear(16, 1));
    x = tensor({{0.f, 0.f}, {0.f, 1.f}, {1.f, 0.f}, {1.f, 1.f}});
    t = tensor({{0.f}, {1.f}, {1.f}, {0.f}});
  }
  Tensor loss() const { return mse_loss(model.forward(x), t); }
  std::vector<std::vector<float>> gradients() const {
    std::vector<std::vector<float>> values;
    for (const Tensor& p : model.parameters()) values.push_back(p.grad().to_vector<float>());
    return values;
  }
  nn::Sequential model;
  Tensor x, t;
};

struct Cube : Function<Cube> {
  static std::vector<Tensor> forward(FunctionContext& ctx, const std::vector<Tensor>& in) {
    ctx.save_for_backward({in[0]});
    return {in[0] * in[0] * in[0]};
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    const Tensor x = ctx.saved()[0];
    return {3 * x * x * grads[0]};
  }
};

nn::models::Gpt2 small_gpt(bool recompute = false) {
  return nn::models::Gpt2(
      {.vocab_size = 40, .n_positions = 8, .n_embd = 8, .n_layer = 5, .n_head = 2, .recompute = recompute});
}
Tensor gpt_loss(const nn::models::Gpt2& model) {
  const Tensor text = randint(0, 40, {2, 9}, {.dtype = i64});
  return model.loss(text.narrow(1, 0, 8), text.narrow(1, 1, 8));
}

}  // namespace

TEST_CASE("explain() of README's network is, to the letter, what README and design.md show",
          "[nn][explain]") {
  const Xor net;
  const std::string text = explain(net.loss(), {.names = net.model.named_parameters()}).to_string();
  INFO(text);
  CHECK(std::count(text.begin(), text.end(), '\n') == 7);
  for (const char* name : {"/README.md", "/docs/design.md"}) {
    std::ifstream file(std::string(COTANGENT_SOURCE_DIR) + name);
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    CHECK(page.find("\n" + text + "```\n") != std::string::npos);
  }
}

TEST_CASE("explain() changes nothing: the gradients that follow have the same bits", "[nn][explain]") {
  const Xor looked_at, left_alone;
  int hooked = 0;
  const Tensor y = looked_at.model.forward(looked_at.x);
  y.retain_grad();
  y.register_hook([&](const Tensor& g) { return ++hooked, 2 * g; });
  looked_at.model.parameters()[0].register_hook([&](const Tensor& g) { return ++hooked, g; });
  const Tensor loss = mse_loss(y, looked_at.t);
  for (int times = 0; times < 2; ++times) {
    const Explanation e =
        explain(loss, {.names = looked_at.model.named_parameters(), .grads = true, .times = true});
    CHECK(hooked == 0);
    CHECK_FALSE(y.grad().defined());
    CHECK_FALSE(looked_at.model.parameters()[0].grad().defined());
    CHECK(e.nodes.back().grad_norm.value() == 1);  // dL/dL
    CHECK(e.nodes[0].backward_us.value() > 0);
  }
  loss.backward();
  CHECK(hooked == 2);
  CHECK(y.grad().defined());
  const Tensor other = left_alone.model.forward(left_alone.x);
  other.register_hook([](const Tensor& g) { return 2 * g; });
  mse_loss(other, left_alone.t).backward();
  CHECK(looked_at.gradients() == left_alone.gradients());
}

TEST_CASE("explain() leaves random numbers, recomputed parts and mixed precision as they were",
          "[nn][explain]") {
  const auto step = [](bool look) {
    manual_seed(3);
    const auto model = small_gpt(true);  // with dropout
    Tensor loss;
    {
      const Autocast autocast(bf16);
      loss = gpt_loss(model);
    }
    if (look) explain(loss, {.names = model.named_parameters(), .grads = true, .times = true});
    loss.backward();
    std::vector<float> values = rand({4}).to_vector<float>();
    for (const Tensor& p : model.parameters())
      for (const float v : p.grad().to_vector<float>()) values.push_back(v);
    return values;
  };
  CHECK(step(true) == step(false));
}

TEST_CASE("explain(): norms are those of the cotangents that arrive", "[nn][explain]") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  const Tensor y = a * b;
  const Explanation e = explain(sum(y + y * y), {.grads = true});  // dL/dy = 1 + 2 y = 7, 17
  REQUIRE(e.nodes.size() == 4);
  CHECK(e.nodes[0].op == "mul");
  CHECK(e.nodes[0].grad_norm.value() == Approx(std::sqrt(7. * 7 + 17 * 17)));
  REQUIRE(e.leaves.size() == 2);
  CHECK(e.leaves[0].name == "leaf 1");
  CHECK(e.leaves[0].grad_norm.value() == Approx(std::sqrt(21. * 21 + 68 * 68)));
  CHECK(e.nodes[0].source.starts_with("ops/elementwise/binary_table.inc:"));
}

TEST_CASE("explain(): memory that several nodes keep is counted once", "[nn][explain]") {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor y = exp(x);  // keeps its result, 16 bytes
  const Tensor product_of_both = y * y.view({4});
  const Explanation e = explain(sum(product_of_both + x * x));
  CHECK(e.bytes == 16);
  CHECK(e.nodes[0].bytes == 16);
  const auto& product =
      *std::find_if(e.nodes.begin(), e.nodes.end(), [](const auto& n) { return n.op == "mul"; });
  REQUIRE(product.kept.size() == 2);
  CHECK(product.kept[0].from == "y");
  CHECK(product.kept[0].node == 1);
  CHECK(product.kept[1].node == 2);  // the view
  CHECK(product.bytes == 0);
}

TEST_CASE("explain(): memory over the step", "[nn][explain]") {
  const Tensor x = leaf(std::vector<float>(256, 1));  // 1 KiB
  const Explanation e = explain(sum(exp(tanh(x))));
  REQUIRE(e.memory.size() == 6);
  const auto is = [&](std::size_t i, int node, bool backward, std::int64_t kept, std::int64_t cotangents,
                      std::int64_t gradients) {
    const Explanation::Moment& m = e.memory[i];
    INFO(i << ": node " << m.node << ", kept " << m.kept << ", cotangents " << m.cotangents << ", gradients "
           << m.gradients);
    CHECK((m.node == node && m.backward == backward && m.leaves == 1024));
    CHECK((m.kept == kept && m.cotangents == cotangents && m.gradients == gradients));
  };
  is(0, 1, false, 1024, 0, 0);
  is(1, 2, false, 2048, 0, 0);
  is(2, 3, false, 2048, 0, 0);
  is(3, 3, true, 2048, 4 + 1024, 0);  // the loss's, and exp's
  is(4, 2, true, 2048, 2048, 0);      // exp's and tanh's
  is(5, 1, true, 1024, 1024, 1024);   // tanh's, and x's gradient
  CHECK(e.peak == 4);
}

TEST_CASE("explain(): a peak is what the allocator sees", "[nn][explain]") {
  manual_seed(1);
  const nn::Sequential model(nn::Linear(256, 512), nn::Tanh(), nn::Linear(512, 512), nn::Tanh(),
                             nn::Linear(512, 8));
  const Tensor x = randn({1024, 256}), t = randn({1024, 8});
  mse_loss(model.forward(x), t).backward();
  for (Tensor p : model.parameters()) p.set_grad({});
  Allocator& allocator = current_allocator(cpu);
  const auto before = static_cast<double>(allocator.stats().in_use);
  const Tensor loss = mse_loss(model.forward(x), t);
  const Explanation e = explain(loss);
  allocator.reset_peak();
  loss.backward();
  const double seen = static_cast<double>(allocator.stats().peak_in_use) - before;
  const Explanation::Moment& m = e.memory[e.peak];
  const std::int64_t given = x.nbytes() + t.nbytes() + m.leaves;  // was there before
  INFO("counted " << m.sum() - given << ", seen " << seen);
  CHECK(static_cast<double>(m.sum() - given) == Approx(seen).epsilon(0.03));
}

TEST_CASE("explain(): the layers of a transformer are shown once", "[nn][explain]") {
  const auto model = small_gpt();
  const Explanation e = explain(gpt_loss(model), {.names = model.named_parameters()});
  const std::string text = e.to_string();
  CHECK(text.find("--- transformer.h.4\n") != std::string::npos);
  CHECK(text.find("... transformer.h.3 to transformer.h.1: 3 times the same") != std::string::npos);
  CHECK(text.find("--- transformer.h.0\n") != std::string::npos);  // it has a norm where the others add first
  CHECK(text.find("--- transformer.h.2\n") == std::string::npos);
  const auto module = [&](std::string_view op, int from_end) {
    for (auto n = e.nodes.rbegin(); n != e.nodes.rend(); ++n)
      if (n->op == op && from_end-- == 0) return n->module;
    return std::string("none");
  };
  CHECK(module("scaled_dot_product_attention", 0) == "transformer.h.4.attn");
  CHECK(module("gelu_tanh", 4) == "transformer.h.0.mlp");
  CHECK(module("dropout", 0) == "transformer.h.4");
  const std::string dot = e.to_dot();
  CHECK(dot.find("label = \"transformer.h.2\";") != std::string::npos);
  CHECK(std::count(dot.begin(), dot.end(), '{') == std::count(dot.begin(), dot.end(), '}'));
}

TEST_CASE("explain() of recomputed parts, custom functions and recorded gradients", "[nn][explain]") {
  const auto model = small_gpt(true);
  const Explanation parts =
      explain(gpt_loss(model), {.names = model.named_parameters(), .grads = true, .times = true});
  const auto part =
      std::find_if(parts.nodes.begin(), parts.nodes.end(), [](const auto& n) { return n.op == "recompute"; });
  REQUIRE(part != parts.nodes.end());
  CHECK(part->formula == "computed again on the way back");
  CHECK(part->kept[0].name == "input 0");
  CHECK(part->grad_norm.value() > 0);

  const Tensor x = leaf({2});
  const Tensor cube = Cube::apply({x})[0];
  const Explanation own = explain(cube, {.grads = true});
  CHECK(own.nodes[0].op.find("Cube") != std::string::npos);
  CHECK(own.nodes[0].formula == "a function of your own");
  CHECK(own.nodes[0].kept[0].name == "saved 0");
  CHECK(own.leaves[0].grad_norm.value() == 12);

  const Tensor slope = grad({cube}, {x}, {}, {.create_graph = true})[0];
  const Explanation second = explain(slope, {.grads = true});
  CHECK(second.nodes.size() > 2);
  CHECK(second.leaves[0].grad_norm.value() == 12);  // 6 x
}

TEST_CASE("ForwardWatch times what was recorded while it lived", "[nn][explain]") {
  const Tensor x = leaf(std::vector<float>(1000, 0.5f));
  const Tensor before = exp(x);
  const ForwardWatch watch({1e12, 1e12});
  Tensor y = before.view({10, 100}) * 2;
  y.tanh_();
  const Explanation e = explain(sum(y), {.times = true, .watch = &watch});
  REQUIRE(e.nodes.size() == 5);
  CHECK_FALSE(e.nodes[0].forward_us);  // before
  CHECK_FALSE(e.nodes[1].forward_us);  // no kernel
  for (const std::size_t i : {2u, 3u, 4u}) {
    INFO(e.nodes[i].op);
    CHECK(e.nodes[i].forward_us.value() > 0);
    CHECK((e.nodes[i].share.value() > 0 && e.nodes[i].share.value() < 1));
  }
  CHECK(e.to_string().find("forward us  % of limit  backward us") != std::string::npos);
}

TEST_CASE("explain() says why there is nothing to explain", "[nn][explain]") {
  const auto message = [](const Tensor& t) { return message_of<AutogradError>([&] { explain(t); }); };
  CHECK(message({}) == "[explain] the loss is undefined; pass a tensor that was computed");
  CHECK(message(ones({2})) ==
        "[explain] tensor f32[2] has no tape behind it: nothing that it was made from requires a gradient, "
        "or a NoGrad "
        "guard was alive; call set_requires_grad() on the leaves before the forward pass");
  CHECK(message(leaf({1})) ==
        "[explain] tensor f32[1] is a leaf, which no op has made; pass what was computed from it");
  const Tensor y = sum(exp(leaf({1})));
  y.backward({}, true);
  CHECK(explain(y).nodes.size() == 2);  // still there
  y.backward();
  CHECK(
      message(y) ==
      "[explain] what 'exp' kept for backward has been freed: the tape was walked already; explain it before "
      "backward(), or pass retain_graph = true to that");
  CHECK(message_of<AutogradError>([] {
          explain(exp(leaf({1, 2})), {.grads = true});
        }).find("the root is f32[2]") != std::string::npos);
  const Tensor cube = Cube::apply({leaf({1})})[0];
  cube.backward();
  CHECK(message(cube).find("what '") != std::string::npos);
}

TEST_CASE("explain() writes a page that is whole and needs nothing from elsewhere", "[nn][explain]") {
  // Names that would end the script, or keep it from ending: the page has one "<" of a script's name at each end.
  const Tensor x = leaf({1, 2}), y = leaf({1, 2});
  const Explanation e = explain(sum(exp(x) * y), {.names = {{"</script>\"", x}, {"<!--<script>", y}}});
  const std::string page = e.to_html();
  CHECK(page.find("/*TAPE*/") == std::string::npos);
  CHECK(page.find("\\u003c/script>\\\"") != std::string::npos);
  CHECK(page.find("\\u003c!--\\u003cscript>") != std::string::npos);
  CHECK(page.find("<!--") == std::string::npos);
  CHECK(page.find("<script") == page.rfind("<script"));
  CHECK(page.find("</script>") == page.rfind("</script>"));
  for (const char* elsewhere : {"src=", "href=", "@import", "fetch("})
    CHECK(page.find(elsewhere) == std::string::npos);
  CHECK(e.to_dot().find("label = \"</script>\\\"\"") != std::string::npos);
  CHECK(message_of<IoError>([&] { e.write_html("/nowhere/page.html"); }).find("/nowhere/page.html") !=
        std::string::npos);
}

TEST_CASE("explain() begins at any output of a node", "[nn][explain]") {
  const Tensor x = leaf(std::vector<float>(8, 1)).view({2, 4});
  const Explanation e = explain(x.unbind(0)[1]);
  REQUIRE(e.memory.size() == 4);
  CHECK(e.memory[2].node == 2);
  CHECK(e.memory[2].cotangents == 16 + 32);  // that of the second row, and the whole
}
