#!/usr/bin/env bash
# The whole suite on this machine's GPU, once for each list of architectures: they decide which kernels run, and each
# choice must be right.
#   usage: gpu_suite.sh [LIST ...]
#   LIST: as in COTANGENT_CUDA_ARCHITECTURES; without any: 90a-real, 80-virtual and the default list
# Environment: TESTS, a Catch2 selection ("[softmax]"); TOOL, a tool of compute-sanitizer (memcheck, racecheck) to run
# the tests under; JOBS. The builds stay in build/gpu-*.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
[ $# -gt 0 ] || set -- 90a-real 80-virtual "80-real;86-real;89-real;90a-real;90-virtual"

status=0
for list in "$@"; do
  build=$root/build/gpu-${list//[^0-9a-z]/_}
  echo "== $list"
  mkdir -p "$build"
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOTANGENT_CUDA=ON "-DCOTANGENT_CUDA_ARCHITECTURES=$list" \
    -DCOTANGENT_BUILD_EXAMPLES=OFF -DCOTANGENT_BUILD_BENCH=OFF >"$build.log" 2>&1 &&
    cmake --build "$build" -j "${JOBS:-$(nproc)}" --target ct_tests >>"$build.log" 2>&1 || {
    tail -n 40 "$build.log"
    status=1
    continue
  }
  run=("$build/ct_tests")
  [ -z "${TOOL:-}" ] || run=(compute-sanitizer --tool "$TOOL" --error-exitcode 1 "${run[@]}")
  (cd "$build" && COTANGENT_TEST_POISON=1 "${run[@]}" ${TESTS:+"$TESTS"}) || status=1
done
exit $status
