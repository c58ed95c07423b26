#!/usr/bin/env bash
# An op's folder that lacks one of its files must stop the configuration, naming the file.
#   usage: rooms.sh SOURCE_DIR SCRATCH_DIR
set -euo pipefail
source=$(cd "${1:?source folder}" && pwd)
scratch=${2:?scratch folder}
rm -rf "$scratch"
mkdir -p "$scratch/tree/ops/sample"
for entry in CMakeLists.txt cmake core nn; do ln -s "$source/$entry" "$scratch/tree/$entry"; done
cp -r "$source/ops/testing" "$scratch/tree/ops/"  # a link within ops would not be looked into
mkdir -p "$scratch/tree/ops/engine/sample" && : >"$scratch/tree/ops/engine/sample/sample_cpu.cpp"  # a library has kernels
room=$scratch/tree/ops/sample

configure() {
  cmake -S "$scratch/tree" -B "$scratch/build" -DCOTANGENT_CUDA=OFF -DCOTANGENT_BUILD_TESTS=OFF \
    -DCOTANGENT_BUILD_EXAMPLES=OFF -DCOTANGENT_BUILD_BENCH=OFF -DCOTANGENT_INSTALL=OFF -DCOTANGENT_ALLOW_UNFINISHED_ROOMS=OFF >"$scratch/log" 2>&1
}
fail() {
  echo "FAILED: $*"
  cat "$scratch/log"
  exit 1
}

files=(sample.h sample.cpp sample_test.cpp README.md sample_cpu.cpp sample_cuda.cu sample_samples.cpp)
for file in "${files[@]}" sample_plain.cpp; do : >"$room/$file"; done  # plain kernels: of one op of the library at least
configure || fail "a complete room was refused"
grep -q 'cotangent/ops/sample/sample.h' "$scratch/build/include/cotangent/ops.h" || fail "the room is not in ops.h"
grep -q 'rooms::sample' "$scratch/build/generated/rooms.cpp" || fail "the room is not in the table"
grep -q 'op_tests::sample' "$scratch/build/generated/samples.cpp" || fail "its samples are not in the table"

for file in "${files[@]}"; do
  rm "$room/$file"
  if configure; then fail "a room without $file was accepted"; fi
  grep -q "ops/sample/$file is missing" "$scratch/log" || fail "the message does not name ops/sample/$file"
  : >"$room/$file"
done

rm "$room"/sample_{cpu.cpp,cuda.cu,samples.cpp}
configure || fail "a room without kernels was refused"
rm -rf "$scratch"
echo "a complete room is taken in; each missing file is refused by name"
