#!/usr/bin/env bash
# clang-tidy (.clang-tidy) over the library. Slow, so not part of the suite: run it before a large change lands.
#   usage: tidy.sh SOURCE_DIR BUILD_DIR [FILE...]
set -euo pipefail
cd "${1:?source folder}"
build=$(cd "${2:?build folder, configured without CUDA}" && pwd)
shift 2
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(find core autograd ops nn -name '*.cpp' ! -name '*_test.cpp' ! -name '*_bench.cpp' \
    ! -name "*_cuda.cpp" 2>/dev/null | sort)
fi
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet 2>/dev/null
echo "clang-tidy: ${#files[@]} files, nothing to say"
