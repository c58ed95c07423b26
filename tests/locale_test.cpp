#include <clocale>
#include <locale>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <cotangent/core/memory/allocator.h>
#include <cotangent/nn/io/checkpoint.h>
#include <cotangent/nn/io/npy.h>
#include <cotangent/nn/io/safetensors.h>
#include <cotangent/nn/nn.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>

#include "tests/catch.h"
#include "tests/optim_testing.h"

// Nothing that is written, read or said depends on the locale of the program.

using namespace ct;
using ct::testing::message_of;
using ct::testing::TempFolder;

namespace {

// A decimal comma, and a point between any two digits: even small numbers look strange with it.
struct Odd : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\1"; }
  std::string do_truename() const override { return "wahr"; }
};

// While one lives, streams are made with that locale, and C functions use German where it is installed.
class OddLocale {
 public:
  OddLocale()
      : c_(std::setlocale(LC_ALL, nullptr)), cpp_(std::locale::global(std::locale(std::locale(), new Odd))) {
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "de_DE"})
      if (std::setlocale(LC_ALL, name)) break;
  }
  ~OddLocale() {
    std::locale::global(cpp_);
    std::setlocale(LC_ALL, c_.c_str());
  }
  OddLocale(const OddLocale&) = delete;
  OddLocale& operator=(const OddLocale&) = delete;

 private:
  std::string c_;
  std::locale cpp_;
};

template <class F>
auto under_odd_locale(F&& f) {
  const OddLocale odd;
  return f();
}

template <class T>
std::string text_of(const T& value) {
  std::ostringstream out;  // with the locale of now
  out << value;
  return out.str();
}

// A training state with many parameters.
struct Run {
  std::vector<Tensor> params;
  std::unique_ptr<optim::Adam> adam;
  std::unique_ptr<optim::StepLR> schedule;

  explicit Run(int steps) {
    for (int i = 0; i < 12; ++i) params.push_back(full({1234}, 1.5, {.requires_grad = true}));
    adam = std::make_unique<optim::Adam>(params, optim::AdamOptions{.lr = 0.1234567});
    schedule = std::make_unique<optim::StepLR>(*adam, optim::StepLROptions{.step_size = 10});
    for (int s = 0; s < steps; ++s) {
      for (Tensor& p : params) p.set_grad(ones({1234}));
      adam->step();
      schedule->step();
    }
  }
  void save(const std::string& path) const {
    StateDict extras;
    extras.set_value("rate", 0.1);
    extras.set_value("tokens", 1234567);
    io::save_checkpoint(path, {{"adam", *adam}, {"schedule", *schedule}}, extras);
  }
  StateDict load(const std::string& path) const {
    return io::load_checkpoint(path, {{"adam", *adam}, {"schedule", *schedule}});
  }
};

}  // namespace

TEST_CASE("Locale: numbers as they are seen by people", "[locale]") {
  const auto seen = [] {
    std::vector<std::string> texts = {
        text_of(full({2}, 1234.5)),
        text_of(full({2}, 1e-7)),
        text_of(full({2}, 1234)),
        text_of(full({2}, 123456, {.dtype = i64})),
        text_of(Shape{1024, 768}),
        text_of(Scalar(1234)),
        text_of(Scalar(0.25)),
        text_of(cuda(12)),
        text_of(nn::Sequential(nn::Linear(1024, 1234), nn::Dropout(0.25))),
        describe(zeros({1024, 12})),
        to_string(Shape{1024}),
        to_string(parse_device("cuda:12")),
        message_of([] {
          zeros({1024, 12}).view({1234});
        }),
        message_of([] { nn::Dropout layer(1234.5); }),
        message_of([] { ones({2}) + ones({1234}); }),
    };
    return texts;
  };
  const std::vector<std::string> usual = seen();
  CHECK(usual[0] == "tensor([1234.5000, 1234.5000])");
  CHECK(usual[4] == "[1024, 768]");
  CHECK(under_odd_locale(seen) == usual);
  CHECK(under_odd_locale([] { return memory_summary(cpu); }) == memory_summary(cpu));
}

TEST_CASE("Locale: what is saved under one is loaded under the other", "[locale]") {
  const TempFolder folder;
  const Run run(11);
  run.save(folder / "usual");
  under_odd_locale([&] { run.save(folder / "odd"); });
  CHECK(folder.read("odd") == folder.read("usual"));
  CHECK(run.adam->state_dict().contains_value("0.11.step"));
  const auto check = [&] {
    for (const char* file : {"usual", "odd"}) {
      const Run resumed(0);
      const StateDict extras = resumed.load(folder / file);
      CHECK(extras.value<double>("rate") == 0.1);
      CHECK(extras.value<std::int64_t>("tokens") == 1234567);
      CHECK(resumed.schedule->time() == 11);
      CHECK(resumed.adam->lr() == run.adam->lr());
      CHECK(resumed.adam->state_dict().value<std::int64_t>("0.11.step") == 11);
    }
  };
  check();
  under_odd_locale(check);

  const Tensor array = full({1234, 2}, 0.5);
  const StateDict dict = {{"array", array}};
  const auto write = [&](const std::string& name) {
    io::save_npy(folder / (name + ".npy"), array);
    io::save(folder / (name + ".safetensors"), dict);
  };
  write("usual");
  under_odd_locale([&] { write("odd"); });
  for (const char* kind : {".npy", ".safetensors"})
    CHECK(folder.read(std::string("odd") + kind) == folder.read(std::string("usual") + kind));
  const Shape shape = under_odd_locale([&] { return io::load_npy(folder / "usual.npy").shape(); });
  CHECK(shape == array.shape());
  CHECK(under_odd_locale([&] { return io::load(folder / "usual.safetensors"); })["array"].shape() == shape);
}
