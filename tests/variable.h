#pragma once

#include <cstdlib>
#include <string>

#include <cotangent/core/jit/build_internal.h>

namespace ct::testing {

/// A variable of the environment with another value, until this goes.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name), before_(jit::variable(name)) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
};

/// No compiler of a GPU's kernels, though one may be installed.
struct NoCompiler : Variable {
  NoCompiler() : Variable("COTANGENT_NVCC", "/nowhere/nvcc") {}
};

}  // namespace ct::testing
