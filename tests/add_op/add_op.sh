#!/usr/bin/env bash
# Adds an op as CONTRIBUTING.md says, in a scratch copy of the sources: the folder squash/ beside this script, and
# nothing else. Shows that the op is built, registered and conforms; that without its backward the build fails; and
# that with a wrong backward the suite fails.
#
# usage: add_op.sh SOURCE_DIR SCRATCH_DIR
set -euo pipefail
source_dir=$(cd "$1" && pwd)
scratch=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

mkdir -p "$scratch/tree"
for entry in CMakeLists.txt cmake core autograd ops nn tests/catch.h tests/main.cpp tests/fuzz tests/consumers; do
  mkdir -p "$scratch/tree/$(dirname "$entry")"
  cp -a -u "$source_dir/$entry" "$scratch/tree/$(dirname "$entry")/"
done
# The one folder under test, and the tests that concern it.
find "$scratch/tree" -name '*_test.cpp' -delete -o -name '*_bench.cpp' -delete
mkdir -p "$scratch/tree/ops/squash"
cp "$here"/squash/* "$scratch/tree/ops/squash/"
for source in "$scratch"/tree/ops/*/*.cpp; do  # every op must have a test; empty ones do here
  name=${source%.cpp}
  [ ! -f "$name.h" ] || [ -f "${name}_test.cpp" ] || : >"${name}_test.cpp"
done
cat >"$scratch/tree/tests/registry_test.cpp" <<'CPP'
#include <cotangent/core/registry.h>
#include <cotangent/ops/testing/conformance.h>

#include "tests/catch.h"

TEST_CASE("squash is in the registry and conforms") {
  const ct::OpDef* op = ct::find_op("squash");
  REQUIRE(op != nullptr);
  for (const std::string& failure : ct::check_conformance(*op).failures) FAIL_CHECK(failure);
}
CPP

build() { cmake --build "$scratch/build" --target ct_tests >"$scratch/build.log" 2>&1; }
fail() { echo "add_op: $*"; tail -n 30 "$scratch/build.log"; exit 1; }

cmake -S "$scratch/tree" -B "$scratch/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCOTANGENT_CUDA=OFF -DCOTANGENT_BUILD_BENCH=OFF \
  -DCOTANGENT_BUILD_EXAMPLES=OFF >"$scratch/configure.log" 2>&1 || { tail -n 30 "$scratch/configure.log"; exit 1; }
build || fail "the op does not build"
"$scratch/build/ct_tests" >"$scratch/test.log" 2>&1 || { tail -n 30 "$scratch/test.log"; fail "the op does not conform"; }
echo "1. one folder, nothing else: built, registered, conforms"

room=$scratch/tree/ops/squash
sed -i 's/squash_forward, squash_backward}/squash_forward, nullptr}/' "$room/squash_cpu.cpp"
if build; then fail "an op without backward was built"; fi
grep -q "needs a backward kernel" "$scratch/build.log" || fail "the build failed for another reason"
cp "$here/squash/squash_cpu.cpp" "$room/"
rm "$room/README.md"
if cmake -S "$scratch/tree" -B "$scratch/build" >"$scratch/configure.log" 2>&1; then fail "a room without README was accepted"; fi
grep -q "README.md is missing" "$scratch/configure.log" || fail "configuring failed for another reason"
cp "$here/squash/README.md" "$room/"
echo "2. without its backward the build fails: an op needs a backward kernel; without README it does not configure"

sed -i 's|/ (d \* d)|/ d|' "$room/squash_cpu.cpp"
build || fail "the wrong backward does not build"
if "$scratch/build/ct_tests" >"$scratch/test.log" 2>&1; then fail "a wrong backward passed"; fi
grep -q "central differences give" "$scratch/test.log" || fail "the suite failed for another reason"
echo "3. with a wrong backward the suite is red: $(grep -m1 -o 'gradient of input 0.*' "$scratch/test.log")"
