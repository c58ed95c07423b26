#!/usr/bin/env bash
# Every public header compiles alone, as a consumer would compile it: with the include folder and C++20, and
# nothing else. The bridge to Eigen is for those who have it: api.sh and its own test look at it.
#   usage: headers.sh SOURCE_DIR BUILD_DIR COMPILER
set -euo pipefail
cd "${1:?source folder}"
include=${2:?build folder}/include
compiler=${3:?compiler}

mapfile -t headers < <({
  find core autograd ops nn -name '*.h' ! -path 'core/cuda/*' 2>/dev/null |
    grep -Ev '_(kernels|cpu|cuda|internal)\.h$|^ops/interop_eigen\.h$' | sort
  echo ops.h
  echo cotangent.h
} || true)
printf '%s\n' "${headers[@]}" | xargs -P "$(nproc)" -I {} sh -c "
  printf '#include <cotangent/%s>\n' {} |
    '$compiler' -std=c++20 -Wall -Wextra -Wno-unused-parameter -Werror -fsyntax-only -I '$include' -x c++ - || {
      echo 'not self-contained: {}'
      exit 1
    }"
echo "${#headers[@]} headers compile alone"
