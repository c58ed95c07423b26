#!/usr/bin/env bash
# Adds an op as CONTRIBUTING.md says, in a scratch copy of the sources: the folder squash/ beside this script, and the row of
# docs/ops.md that the suite writes. Shows that the op is built, registered and passes its tests and the suite's of every op;
# that without its backward the build fails; and that with a wrong backward the suite fails. Minutes: not part of ./ct test.
#
# usage: add_op.sh SOURCE_DIR SCRATCH_DIR
set -euo pipefail
source_dir=$(cd "$1" && pwd)
scratch=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

mkdir -p "$scratch/tree"
for entry in CMakeLists.txt CMakePresets.json cmake core autograd ops nn tests docs; do
  mkdir -p "$scratch/tree/$(dirname "$entry")"
  cp -a -u "$source_dir/$entry" "$scratch/tree/$(dirname "$entry")/"
done
mkdir -p "$scratch/tree/ops/squash"
cp "$here"/squash/* "$scratch/tree/ops/squash/"

build() { cmake --build "$scratch/build" --target ct_dev >"$scratch/build.log" 2>&1; }
configure() { cmake --preset dev -S "$scratch/tree" -B "$scratch/build" -DCOTANGENT_DEV=ops/squash "$@" >"$scratch/configure.log" 2>&1; }
# Tests that ./ct dev squash runs, and those that every op must pass.
suite() {
  COTANGENT_FILES=" squash " "$scratch/build/ct_dev" "~[conformance],every op conforms*,every op says*,every op of the library*" \
    >"$scratch/test.log" 2>&1
}
fail() { echo "add_op: $*"; tail -n 30 "$scratch/build.log"; exit 1; }

launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
configure "${launcher[@]}" || { tail -n 30 "$scratch/configure.log"; exit 1; }
build || fail "the op does not build"
suite || { tail -n 30 "$scratch/test.log"; fail "the op does not pass the suite"; }
grep -q "All tests passed" "$scratch/test.log" || fail "no test ran"
if COTANGENT_FILES=" squash " "$scratch/build/ct_dev" "docs/ops.md*" >"$scratch/page.log" 2>&1; then fail "a page without the op passed"; fi
(cd "$scratch/tree" && COTANGENT_WRITE_OPS_MD=docs/ops.md "$scratch/build/ct_dev" "docs/ops.md*" >>"$scratch/page.log" 2>&1)
grep -q "squash" "$scratch/tree/docs/ops.md" || fail "docs/ops.md was not written"
echo "1. one folder: built, registered, its tests and the suite pass; docs/ops.md is written by the suite"

room=$scratch/tree/ops/squash
sed -i 's/squash_forward, squash_backward}/squash_forward, nullptr}/' "$room/squash_cpu.cpp"
if build; then fail "an op without backward was built"; fi
grep -q "needs a backward kernel" "$scratch/build.log" || fail "the build failed for another reason"
cp "$here/squash/squash_cpu.cpp" "$room/"
rm "$room/README.md"
if configure; then fail "a room without README was accepted"; fi
grep -q "README.md is missing" "$scratch/configure.log" || fail "configuring failed for another reason"
cp "$here/squash/README.md" "$room/"
echo "2. without its backward the build fails: an op needs a backward kernel; without README it does not configure"

sed -i 's|/ (d \* d)|/ d|' "$room/squash_cpu.cpp"
build || fail "the wrong backward does not build"
if suite; then fail "a wrong backward passed"; fi
grep -q "central differences give" "$scratch/test.log" || fail "the suite failed for another reason"
echo "3. with a wrong backward the suite is red: $(grep -m1 -o 'gradient of input 0.*' "$scratch/test.log")"
