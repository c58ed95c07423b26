#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/random_programs/program.h"

// Writes random programs, a line of JSON each, for replay.py:  ct_random_programs FIRST COUNT [--cuda]. README.md

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: ct_random_programs FIRST COUNT [--cuda]\n");
    return 2;
  }
  const auto first = std::strtoull(argv[1], nullptr, 10), count = std::strtoull(argv[2], nullptr, 10);
  const ct::Device device = argc > 3 ? ct::cuda(0) : ct::cpu;
  std::map<std::string, int> refused;
  int status = 0;
  for (unsigned long long seed = first; seed < first + count; ++seed) try {
      const ct::random_programs::Program program(seed, device);
      for (const std::string& text : program.refused) ++refused[text];
      std::printf("%s\n", program.json().c_str());
    } catch (const std::exception& e) {
      std::printf("{\"seed\":%llu,\"threw\":true}\n", seed);
      std::fprintf(stderr, "program %llu: %s\n", seed, e.what());
      status = 1;
    }
  // Calls that an op refused though their operands were chosen to fit: to be looked at.
  for (const auto& [text, times] : refused)
    std::fprintf(stderr, "refused %d times: %s\n", times, text.c_str());
  return status;
}
