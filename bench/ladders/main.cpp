#include <cotangent/cotangent.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/ladders/ladder.h"

// Climbs ladders: verifies every rung, then measures it. Exit codes: 0 done, 1 a rung is wrong or an error, 2 a wrong
// command line.

namespace {

using namespace ct::ladder;

const char* const kUsage =
    "Usage: ./ct ladder NAME [--rung N] [--device cpu|cuda] [--threads N] [--verify | --quick] [--write "
    "FILE]\n"
    "\n"
    "Runs a ladder: one piece of work, written several times, each faster than the one before. Every rung "
    "is\n"
    "verified against the plain form, then measured beside the library and the limit of this machine.\n"
    "\n"
    "  --rung N      the rung of this number alone\n"
    "  --device D    cpu or cuda; default: both, where there is a GPU\n"
    "  --threads N   on the CPU; default: as many as there are processors\n"
    "  --verify      verify on small sizes, and do not measure; without NAME all ladders\n"
    "  --quick       measure on the small sizes, where nothing can be learned: to try a rung, or --write\n"
    "  --write FILE  write tables between the file's lines <!-- ladder NAME DEVICE --> and <!-- /ladder -->, "
    "and\n"
    "                pictures beside it (bench/ladders/NAME.md)\n"
    "  --diff        print the rungs, each as the difference to the one before (./ct ladder NAME --diff)\n"
    "  --spoil       change a number of each result before it is verified: fails where that is not noticed\n"
    "\n"
    "Ladders:\n";

struct Options {
  std::string name, device, write;
  int rung = 0;
  bool verify = false, quick = false, spoil = false, help = false;
};

// Throws ct::ValueError for what is no command line.
Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&]() -> std::string {
      CT_CHECK(i + 1 < argc, ct::ValueError, "ladder", flag, " has no value; give it one");
      return argv[++i];
    };
    const auto number = [&] {
      const std::string text = value();
      const int n = std::atoi(text.c_str());
      CT_CHECK(n >= 1 && n <= 1024 && text == std::to_string(n), ct::ValueError, "ladder", flag, " is ", text,
               "; it must be a number from 1 to 1024");
      return n;
    };
    if (flag == "--rung")
      o.rung = number();
    else if (flag == "--threads")
      ct::set_num_threads(number());
    else if (flag == "--device")
      o.device = value();
    else if (flag == "--write")
      o.write = value();
    else if (flag == "--verify")
      o.verify = true;
    else if (flag == "--quick")
      o.quick = true;
    else if (flag == "--spoil")
      o.spoil = true;
    else if (flag == "--help" || flag == "-h")
      o.help = true;
    else {
      CT_CHECK(flag[0] != '-' && o.name.empty(), ct::ValueError, "ladder", "unknown argument ", flag,
               "; see --help");
      o.name = flag;
    }
  }
  CT_CHECK(o.device.empty() || o.device == "cpu" || o.device == "cuda", ct::ValueError, "ladder",
           "--device is ", o.device, "; it must be cpu or cuda");
  if (o.device == "cuda") ct::check_device("ladder", ct::cuda(0));
  return o;
}

int climb(const Ladder& ladder, const Options& o) {
  CT_CHECK(o.rung <= static_cast<int>(ladder.rungs.size()), ct::ValueError, "ladder", "--rung is ", o.rung,
           "; ", ladder.name, " has the rungs 1 to ", ladder.rungs.size());
  for (const Rung& rung : ladder.rungs) {  // one that takes none of the small cases would pass unseen
    const auto taken = [&](const Case& of) {
      return std::count(rung.dtypes.begin(), rung.dtypes.end(), of.dtype) > 0;
    };
    CT_CHECK(std::any_of(ladder.small.begin(), ladder.small.end(), taken), ct::ValueError, "ladder", "rung ",
             rung.name, " of ", ladder.name, " takes none of the small cases' dtypes; give it one of them");
  }
  int wrong = 0;
  for (const Case& of : ladder.small) wrong += verify(ladder, of, false, o.rung, o.spoil);
  if (o.verify) {
    std::printf("%s on %s: %zu rungs, %s\n", ladder.name,
                ladder.device == ct::DeviceType::cpu ? "cpu" : "cuda", ladder.rungs.size(),
                wrong == 0 ? "verified" : "NOT all right");
    return wrong;
  }
  std::printf("%s: %s\n%s\n", ladder.name, ladder.what, machine(ladder).c_str());
  std::vector<Result> results;
  for (const Case& of : o.quick ? ladder.small : ladder.timed) {
    if (!o.quick) wrong += verify(ladder, of, true, o.rung, o.spoil);
    results.push_back(measure(ladder, of, o.rung));
    std::printf("\n%s\n%s", describe(of).c_str(), table(ladder, results.back(), false).c_str());
    std::fflush(stdout);
  }
  if (wrong == 0 && !o.write.empty()) write_results(ladder, results, o.write);
  return wrong;
}

int run(const Options& o) {
  if (o.help || (o.name.empty() && !o.verify)) {
    std::fputs(kUsage, o.help ? stdout : stderr);
    for (const Ladder& l : all())
      std::fprintf(o.help ? stdout : stderr, "  %-12s %s: %s\n", l.name,
                   l.device == ct::DeviceType::cpu ? "cpu" : "cuda", l.what);
    return o.help ? 0 : 2;
  }
  int wrong = 0, found = 0;
  for (const Ladder& l : all()) {
    const bool gpu = l.device == ct::DeviceType::cuda;
    if ((!o.name.empty() && o.name != l.name) || (!o.device.empty() && (o.device == "cuda") != gpu)) continue;
    ++found;
    if (gpu && !ct::cuda_is_available())
      std::printf("%s on cuda: skipped, there is no GPU here\n", l.name);
    else
      wrong += climb(l, o);
  }
  CT_CHECK(found > 0, ct::ValueError, "ladder", "there is no ladder ", o.name,
           o.device.empty() ? "" : " on " + o.device,
           ct::built_with_cuda() ? "" : " in a build without CUDA, where those for a GPU alone are left out",
           "; ./ct ladder --help lists them");
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  try {
    options = parse(argc, argv);
  } catch (const ct::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  try {
    return run(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
