#include <array>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/nn/activation.h>
#include <cotangent/nn/container.h>
#include <cotangent/nn/embedding.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/module.h>
#include <cotangent/nn/normalization.h>
#include <cotangent/nn/optim/sgd.h>
#include <cotangent/ops/creation/creation.h>

#include "tests/catch.h"
#include "tests/optim_testing.h"

// Layers that were never passed to add() are named, and nothing else is.

using namespace ct;
using ct::testing::check_mentions;

namespace {

/// Text that f writes to std::cerr.
template <class F>
std::string said_by(F&& f) {
  const std::ostringstream to;
  std::streambuf* const before = std::cerr.rdbuf(to.rdbuf());
  try {
    f();
  } catch (...) {
    std::cerr.rdbuf(before);
    throw;
  }
  std::cerr.rdbuf(before);
  return to.str();
}

struct LastMember : nn::Module {
  nn::Linear body = add("body", nn::Linear(2, 4));
  nn::Linear head{4, 2};
};
struct MiddleMember : nn::Module {
  nn::Linear body = add("body", nn::Linear(2, 4));
  std::optional<nn::LayerNorm> norm = nn::LayerNorm(4);
  nn::Linear head = add("head", nn::Linear(4, 2));
};
struct DerivedMember : LastMember {
  nn::Linear more = add("more", nn::Linear(2, 4));
};
struct ArrayMember : nn::Module {
  std::array<nn::Linear, 2> layers = {nn::Linear(2, 3), nn::Linear(3, 2)};
};
struct VectorMember : nn::Module {
  int depth = 3;
  std::vector<nn::Linear> layers;
  nn::Linear head = add("head", nn::Linear(5, 2));
  VectorMember() {
    for (int i = 0; i < depth; ++i) layers.emplace_back(5, 5);
  }
};
struct WholeStruct : nn::Module {
  VectorMember body;
  nn::Linear head = add("head", nn::Linear(4, 2));
};
struct ContainerMember : nn::Module {
  nn::Sequential body = nn::Sequential(nn::Linear(2, 6), nn::ReLU());
};

}  // namespace

TEST_CASE("Strays: a layer that was never added is named", "[nn][strays]") {
  LastMember last;
  const std::string text = said_by([&] { optim::SGD(last.parameters(), {.lr = 1}); });
  check_mentions(text, {"warning: LastMember has a member of type Linear (weight [2, 4], bias [2])",
                        "never passed to add()", "add(\"head\", head)"});
  CHECK(text.find("[4, 2]") == std::string::npos);     // the one that was
  CHECK(said_by([&] { last.parameters(); }).empty());  // once
  CHECK(said_by([&] { LastMember().state_dict(); }).empty());
  struct Loaded : LastMember {};
  check_mentions(said_by([&] { Loaded().load_state_dict(last.state_dict()); }), {"Loaded", "weight [2, 4]"});
  check_mentions(said_by([] { MiddleMember().state_dict(); }), {"MiddleMember", "LayerNorm (weight [4]"});
  // In what is derived from it; on the heap, in a vector, moved there.
  std::vector<DerivedMember> many(3);
  check_mentions(said_by([&] { many[1].named_parameters(); }), {"DerivedMember", "Linear (weight [2, 4]"});
  const std::string both = said_by([] { std::make_unique<ArrayMember>()->parameters(); });
  check_mentions(both, {"ArrayMember", "weight [3, 2]", "weight [2, 3]"});
  check_mentions(said_by([] { VectorMember().parameters(); }),
                 {"VectorMember", "Linear (weight [5, 5], bias [5]) in a vector"});
  check_mentions(said_by([] { WholeStruct().parameters(); }),
                 {"WholeStruct", "VectorMember (head.weight [2, 5]"});
  check_mentions(said_by([] { ContainerMember().parameters(); }), {"Sequential (0.weight [6, 2]"});
}

TEST_CASE("Strays: at any depth", "[nn][strays]") {
  struct Inner : nn::Module {
    nn::Linear lost{7, 7};
    Tensor forward(const Tensor& x) const { return lost(x); }
  };
  struct Listed : Inner {};
  struct Sequenced : Inner {};
  struct Named : Inner {};
  struct Deep : nn::Module {
    struct Middle : nn::Module {
      Inner inner = add("inner", Inner());
    } middle = add("middle", Middle());
  };
  check_mentions(said_by([] { Deep().parameters(); }), {"Inner", "weight [7, 7]"});
  check_mentions(said_by([] { nn::ModuleList<Listed>({Listed()}).parameters(); }), {"Listed"});
  check_mentions(said_by([] { nn::Sequential(nn::ReLU(), Sequenced()).state_dict(); }), {"Sequenced"});
  struct Fitted : Inner {};
  check_mentions(said_by([] {
                   const Fitted net;
                   const auto fit = [](nn::Module module) { optim::SGD(module.parameters(), {.lr = 1}); };
                   CHECK_THROWS_AS(fit(net), ValueError);  // there are no others
                 }),
                 {"Fitted"});
  check_mentions(said_by([] { nn::ModuleDict<>{{"a", Named()}}.parameters(); }), {"Named"});
}

TEST_CASE("Strays: no alarm where all is as it is meant to be", "[nn][strays]") {
  struct Registered : nn::Module {
    nn::Linear a = add("a", nn::Linear(2, 2)), tied = a;
    nn::Linear late{1, 1};
    std::optional<nn::Linear> none;
    std::vector<nn::Linear> list;
    nn::ReLU activation;
    nn::Module empty;
    Registered() {
      late = add("late", nn::Linear(2, 2));
      for (const char* name : {"x", "y"}) list.push_back(add(name, nn::Linear(2, 2)));
    }
  };
  struct Distilled : nn::Module {
    nn::Linear student = add("student", nn::Linear(2, 2));
    nn::Linear teacher{2, 9};
    nn::Linear target = nn::clone(student);
    Distilled() { teacher.requires_grad_(false); }
  };
  struct Outside : nn::Module {
    std::shared_ptr<nn::Linear> shared = std::make_shared<nn::Linear>(2, 2);
    const nn::Linear& reference = *shared;
    const nn::Linear* pointer = shared.get();
    nn::Linear own = add("own", nn::Linear(2, 2));
  };
  struct Neighbours : nn::Module {
    const nn::Linear &first, &second, &third;
    nn::Linear own = add("own", nn::Linear(2, 2));
    explicit Neighbours(const std::vector<nn::Linear>& all) : first(all[0]), second(all[1]), third(all[2]) {}
  };
  struct Encoder : nn::Module {
    nn::Embedding table = add("table", nn::Embedding(5, 2));
  };
  struct Decoder : nn::Module {
    nn::Embedding table;  // the encoder's
    nn::Linear out = add("out", nn::Linear(2, 5));
    explicit Decoder(const Encoder& encoder) : table(encoder.table) {}
  };
  struct Separate : nn::Module {
    nn::Linear generator = add("generator", nn::Linear(2, 2));
    nn::Linear discriminator{2, 1};
  };
  struct Trainer {
    Registered net;
    nn::Linear probe{2, 2};
  };
  CHECK(said_by([] {
          Registered net;
          net.parameters();
          Registered(net).state_dict();
          nn::clone(net).parameters();
          Registered moved = std::move(net);
          moved.late = nn::Linear(2, 2);
          moved.parameters();
          Distilled distilled;
          distilled.parameters();
          nn::clone(distilled).parameters();
          Outside().state_dict();
          const std::vector<nn::Linear> three(3, nn::Linear(2, 2));
          Neighbours(three).parameters();
          const Encoder encoder;
          const Decoder decoder(encoder);
          decoder.parameters();
          encoder.parameters();
          Separate gan;
          optim::SGD first(gan.discriminator.parameters(), {.lr = 1});
          optim::SGD second(gan.generator.parameters(), {.lr = 1});
          gan.state_dict();
          Trainer trainer;
          trainer.net.parameters();
          nn::Linear beside(2, 2);
          Registered between;
          nn::Linear behind(2, 2);
          between.parameters();
          const std::vector<Registered> many(4);
          many[0].parameters();
          nn::Sequential(nn::Linear(2, 2), Distilled().student).parameters();
        }).empty());
}
