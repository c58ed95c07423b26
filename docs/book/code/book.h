#pragma once

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

// Shared functions of the programs of all chapters and exercises.

namespace book {

/// Prints the heading of a section: the text of the chapter shows the output below it.
inline void section(const char* name) { std::printf("--- %s\n", name); }

/// Throws std::runtime_error with that sentence unless `holds`: what a chapter claims, it checks.
inline void claim(bool holds, const std::string& sentence) {
  if (!holds) throw std::runtime_error("this does not hold: " + sentence);
}

/// Writes a picture as NAME.svg into the folder that the environment variable BOOK_FIGURES names, or else into this one.
inline void figure(const std::string& name, const std::string& svg) {
  const char* const folder = std::getenv("BOOK_FIGURES");
  std::ofstream(std::string(folder ? folder : ".") + "/" + name + ".svg") << svg;
}

/// main() of a program: runs it, and turns what it throws into a sentence and the exit status 1.
inline int run(void (*program)()) {
  try {
    program();
    return 0;
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

}  // namespace book
