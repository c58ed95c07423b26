// The test program's main(): Catch2's, plus two rules. Tests tagged [cuda] need a GPU; where there is none
// they are left out, and the output says how many. With COTANGENT_TEST_POISON in the environment all memory
// is full of NaN when an op gets it, on every device: an op that reads before it writes turns red.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#else
#include <catch2/catch_all.hpp>
#include <catch2/internal/catch_test_case_registry_impl.hpp>
#endif

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cotangent/core/device/cpu_level.h>
#include <cotangent/core/device/device.h>
#include <cotangent/core/device/in_call.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/ops/testing/allocators.h>

namespace {

struct TestInfo {
  std::string stem;  // file name without folder and extension
  bool cuda = false;
};

std::string stem_of(const char* path) {
  std::string name = path;
  if (const auto slash = name.find_last_of("/\\"); slash != std::string::npos) name.erase(0, slash + 1);
  if (const auto dot = name.rfind('.'); dot != std::string::npos) name.erase(dot);
  return name;
}

std::vector<TestInfo> all_tests() {
  std::vector<TestInfo> out;
#if __has_include(<catch2/catch_all.hpp>)
  for (const Catch::TestCaseInfo* info : Catch::getRegistryHub().getTestCaseRegistry().getAllInfos()) {
    TestInfo test{stem_of(info->lineInfo.file)};
    for (const Catch::Tag& tag : info->tags) test.cuda |= static_cast<std::string>(tag.original) == "cuda";
    out.push_back(test);
  }
#else
  for (const Catch::TestCase& info : Catch::getRegistryHub().getTestCaseRegistry().getAllTests()) {
    TestInfo test{stem_of(info.lineInfo.file)};
    for (const std::string& tag : info.tags) test.cuda |= tag == "cuda";
    out.push_back(test);
  }
#endif
  return out;
}

// A name ends where its quotes do, and nowhere else.
std::string quoted_name(const std::string& alternative) {
  const auto first = alternative.find_first_not_of(' ');
  if (first == std::string::npos || std::strchr("[~\"", alternative[first])) return alternative;
  if (alternative.find('[') != std::string::npos) return alternative;  // a tag ends it as well
  return '"' + alternative.substr(first) + '"';
}

// "a,b" means a or b, and what follows binds to one alternative: the exclusion goes into each of them.
std::string without_cuda(const std::string& spec) {
  std::string out, alternative;
  bool quoted = false;
  bool in_tag = false;
  for (std::size_t i = 0; i < spec.size(); ++i) {
    const char c = spec[i];
    if (c == '\\' && i + 1 < spec.size()) {
      alternative += c;
      alternative += spec[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (!quoted && c == '[') in_tag = true;
    if (!quoted && c == ']') in_tag = false;
    if (c == ',' && !quoted && !in_tag) {
      out += quoted_name(alternative) + "~[cuda],";
      alternative.clear();
      continue;
    }
    alternative += c;
  }
  return out + quoted_name(alternative) + "~[cuda]";
}

int count_left_out(const std::vector<std::string>& specs) {
  std::string joined;
  for (const std::string& spec : specs) joined += spec + ',';
  int count = 0;
  for (const TestInfo& test : all_tests()) {
    const bool named = joined.find("[#" + test.stem + "]") != std::string::npos;
    if (test.cuda && (named || joined.find("[#") == std::string::npos)) ++count;
  }
  return count;
}

#ifdef COTANGENT_CHECK_CALLS
#if __has_include(<catch2/catch_all.hpp>)
using Listener = Catch::EventListenerBase;
#else
using Listener = Catch::TestEventListenerBase;
#endif
// Tests of core and of engines do themselves what kernels do inside of calls.
struct EnginesAreCalled final : Listener {
  using Listener::Listener;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    const std::string_view file = info.lineInfo.file;
    if (file.find("/ops/engine/") != file.npos || file.find("/core/") != file.npos)
      ct::detail::set_call_checks(false);
  }
  void testCaseEnded(const Catch::TestCaseStats&) override { ct::detail::set_call_checks(true); }
};
CATCH_REGISTER_LISTENER(EnginesAreCalled)
#endif

void poison(ct::Device device) {
  ct::set_allocator(device, std::make_shared<ct::testing::PoisoningAllocator>(ct::allocator(device)));
}

}  // namespace

int main(int argc, char** argv) try {
  Catch::Session session;
  if (const int status = session.applyCommandLine(argc, argv); status != 0) return status;
  ct::cpu_level();  // throws here, and not in every test, if COTANGENT_CPU names none
  if (std::getenv("COTANGENT_TEST_POISON")) {
    poison(ct::cpu);
    for (int i = 0; i < ct::cuda_device_count(); ++i) poison(ct::cuda(i));
  }
  int left_out = 0;
  if (!ct::cuda_is_available()) {
    auto& specs = session.configData().testsOrTags;
    left_out = count_left_out(specs);
    if (specs.empty()) specs.emplace_back();
    for (std::string& spec : specs) spec = without_cuda(spec);
#if __has_include(<catch2/catch_all.hpp>)
    if (left_out > 0) session.configData().allowZeroTests = true;  // v2 always does
#endif
  }
  const int status = session.run();
  if (left_out > 0) std::cout << "left out: " << left_out << " tests tagged [cuda], no CUDA device here\n";
  return status;
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
