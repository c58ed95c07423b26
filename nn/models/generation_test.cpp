#include <cotangent/cotangent.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/models_testing.h"
#include "tests/nn_testing.h"

using namespace ct;
using namespace ct::nn::models;
using ct::testing::both_models;
using ct::testing::bytes_of;
using ct::testing::largest;
using ct::testing::tensor_of;

TEST_CASE("with a cache the logits are the same, whatever the steps", "[nn][models]") {
  for (const auto& model : both_models()) {
    const Tensor tokens = randint(0, 29, {2, 13});
    const Tensor whole = model->forward(tokens);
    KvCache cache = model->make_cache(2, 13);
    std::int64_t at = 0;
    for (const std::int64_t step : {5, 1, 1, 4, 2}) {
      const Tensor logits = model->forward(tokens.narrow(1, at, step), cache);
      CHECK_FALSE(logits.requires_grad());
      CHECK(largest(logits - whole.narrow(1, at, step)) < 1e-4);
      at += step;
      CHECK(cache.length() == at);
    }
    CHECK_THROWS_WITH(model->forward(tokens.narrow(1, 0, 1), cache), Catch::Contains("room for 13"));
    CHECK(cache.length() == 13);
    cache.truncate(7);
    CHECK(largest(model->forward(tokens.narrow(1, 7, 6), cache) - whole.narrow(1, 7, 6)) < 1e-4);
    CHECK_THROWS_AS(cache.truncate(14), ValueError);
    const ModelSizes s = model->sizes();
    CHECK(cache.nbytes() == 2 * s.layers * 2 * s.kv_heads * 13 * s.head_dim * 4);
  }
}

TEST_CASE("a cache takes no keys and values that require a gradient", "[nn][models]") {
  const Tensor tokens = tensor_of<std::int64_t>({1, 3}, {1, 2, 3});
  for (const auto& model : both_models()) {
    KvCache cache = model->make_cache(1);
    CHECK_THROWS_AS(model->hidden(tokens, &cache), AutogradError);
    CHECK_THROWS_WITH(model->hidden(tokens, &cache), Catch::Contains("leave the cache out"));
    CHECK(cache.length() == 0);
    {
      const NoGrad guard;
      model->hidden(tokens, &cache);
    }
    CHECK(cache.length() == 3);
    model->requires_grad(false);
    CHECK_FALSE(model->hidden(tokens, &cache).requires_grad());
  }
}

TEST_CASE("generation continues a prompt", "[nn][models]") {
  for (const auto& model : both_models()) {
    const Tensor prompt = tensor_of<std::int64_t>({2, 3}, {1, 2, 3, 4, 5, 6});
    // Greedy: each token is the most likely one after those before.
    const Tensor text = model->generate(prompt, {.max_new_tokens = 10, .temperature = 0});
    CHECK(text.shape() == Shape{2, 13});
    CHECK(bytes_of(text.narrow(1, 0, 3).contiguous()) == bytes_of(prompt));
    const Tensor best = argmax(model->forward(text.narrow(1, 0, 12)), -1);
    CHECK(bytes_of(best.narrow(1, 2, 10).contiguous()) == bytes_of(text.narrow(1, 3, 10).contiguous()));
    // top_k = 1 is greedy as well; the same seed gives the same text.
    CHECK(bytes_of(model->generate(prompt, {.max_new_tokens = 10, .top_k = 1})) == bytes_of(text));
    Generator one(5), two(5), three(6);
    const Tensor a = model->generate(prompt, {.max_new_tokens = 10}, one);
    CHECK(bytes_of(a) == bytes_of(model->generate(prompt, {.max_new_tokens = 10}, two)));
    CHECK(bytes_of(a) != bytes_of(model->generate(prompt, {.max_new_tokens = 10}, three)));
    // top_k and top_p leave out the unlikely ones.
    const Tensor first = prompt.narrow(0, 0, 1), many = first.expand({400, 3}).contiguous();
    const std::vector<double> p = softmax(model->forward(first).select(1, 2).to(f64), -1).to_vector<double>();
    std::vector<double> order = p;
    std::ranges::sort(order, std::greater<>());
    const auto least = [&](const GenerateOptions& o) {
      double least = 1;
      std::set<std::int64_t> kinds;
      for (const std::int64_t id : model->generate(many, o).select(1, 3).to_vector<std::int64_t>()) {
        kinds.insert(id);
        least = std::min(least, p[static_cast<std::size_t>(id)]);
      }
      CHECK(kinds.size() > 1);
      return least;
    };
    CHECK(least({.max_new_tokens = 1, .top_k = 3}) >= order[2] * 0.999);
    const double nucleus = order[0] + order[1] + order[2] / 2;  // the first three
    CHECK(least({.max_new_tokens = 1, .top_p = nucleus}) >= order[2] * 0.999);
    CHECK(least({.max_new_tokens = 1}) < order[2]);
    // Longer than the model: 16 positions.
    std::int64_t seen = 0;
    const Tensor longer =
        model->generate(prompt, {.max_new_tokens = 50, .temperature = 0, .on_token = [&](const Tensor& ids) {
                                   CHECK(ids.shape() == Shape{2});
                                   return ++seen < 45;
                                 }});
    CHECK(longer.shape() == Shape{2, 48});
    CHECK(bytes_of(longer.narrow(1, 0, 13).contiguous()) == bytes_of(text));
    // A stop token ends a sequence, the other one goes on.
    const std::int64_t stop = text[0][5].item<std::int64_t>();
    const Tensor stopped =
        model->generate(prompt, {.max_new_tokens = 10, .temperature = 0, .stop_tokens = {stop}});
    const std::vector<std::int64_t> ids = stopped[0].to_vector<std::int64_t>();
    bool ended = false;
    for (std::size_t i = 3; i < ids.size(); ++i) {
      if (ended) CHECK(ids[i] == stop);
      ended = ended || ids[i] == stop;
    }
    CHECK(ended);
    for (const std::int64_t outside : {std::int64_t{-1}, model->sizes().vocabulary}) {
      Generator unused(5);
      CHECK_THROWS_AS(model->generate(prompt, {.stop_tokens = {stop, outside}}, unused), ValueError);
      CHECK_THROWS_WITH(model->generate(prompt, {.stop_tokens = {outside, stop}}, unused),
                        Catch::Contains("[generate] stop token " + std::to_string(outside)));
      CHECK(unused.offset() == 0);
    }
    CHECK(model->generate(prompt, {.max_new_tokens = 0}).shape() == Shape{2, 3});
    CHECK(model->generate(randint(0, 29, {1, 16}), {.max_new_tokens = 2}).shape() == Shape{1, 18});
  }
}

TEST_CASE("generation on CUDA gives the CPU's text", "[nn][models][cuda]") {
  for (const auto& model : both_models()) {
    const Tensor prompt = tensor_of<std::int64_t>({2, 3}, {1, 2, 3, 4, 5, 6});
    const Tensor text = model->generate(prompt, {.max_new_tokens = 30, .temperature = 0});
    Generator one(5), two(5);
    const Tensor drawn = model->generate(prompt, {.max_new_tokens = 5, .top_k = 10}, one);
    model->to(cuda(0));
    const Tensor again = model->generate(prompt.to(cuda(0)), {.max_new_tokens = 30, .temperature = 0});
    CHECK(again.is_cuda());
    CHECK(bytes_of(again.to(cpu)) == bytes_of(text));
    CHECK(bytes_of(model->generate(prompt.to(cuda(0)), {.max_new_tokens = 5, .top_k = 10}, two).to(cpu)) ==
          bytes_of(drawn));
  }
}
