#!/usr/bin/env bash
# Builds and runs one consumer of the library the way a user would.
#   usage: run.sh CASE SOURCE_DIR BUILD_DIR
#   CASE: installed, shared, subdirectory, fetchcontent
# BUILD_DIR is a finished build of the library. It provides what is installed, the settings, and (see reuse.sh)
# the objects that would otherwise be compiled once more.
set -euo pipefail
case=${1:?case} source=$(cd "${2:?source folder}" && pwd) build=$(cd "${3:?build folder}" && pwd)
work=$build/consumers/$case
rm -rf "$work"
mkdir -p "$work"

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
generator=$(cached CMAKE_GENERATOR)
settings=(-G "$generator" "-DCMAKE_BUILD_TYPE=$(cached CMAKE_BUILD_TYPE)"
  "-DCMAKE_CXX_COMPILER=$(cached CMAKE_CXX_COMPILER)")
library_settings=("-DCOTANGENT_CUDA=$(cached COTANGENT_CUDA)" "-DCOTANGENT_MARCH=$(cached COTANGENT_MARCH)"
  "-DCOTANGENT_CUDA_ARCHITECTURES=$(cached COTANGENT_CUDA_ARCHITECTURES)"
  "-DCOTANGENT_CUDA_COMPILE_ONLY=$(cached COTANGENT_CUDA_COMPILE_ONLY)"
  "-DCOTANGENT_WERROR=$(cached COTANGENT_WERROR)" "-DCOTANGENT_BATCH=$(cached COTANGENT_BATCH)"
  "-DCOTANGENT_SMALL=$(cached COTANGENT_SMALL)" -DCOTANGENT_PRECOMPILE=OFF  # for the few files that are compiled
  "-DCMAKE_CXX_COMPILER_LAUNCHER=$source/tests/consumers/reuse.sh"
  "-DCMAKE_CUDA_COMPILER_LAUNCHER=$source/tests/consumers/reuse.sh")
export REUSE_TREE=$build REUSE_SOURCE=$source REUSE_LOG=$work/reused.log
: >"$REUSE_LOG"

step() {  # a quiet command: its output is shown when it fails
  local log=$work/step.log
  if ! "$@" >"$log" 2>&1; then
    echo "FAILED: $*"
    tail -n 40 "$log"
    exit 1
  fi
}

installed_consumer() {  # installed_consumer LIBRARY_BUILD
  step cmake --install "$1" --prefix "$work/first"
  mv "$work/first" "$work/moved"  # an installed prefix can be moved
  if grep -rIlF -e "$work/first" -e "$source" -e "$build" "$work/moved"; then
    echo "FAILED: the installed files above name the folders they were made in"
    exit 1
  fi
  if grep -rIlE '^[ ]*#[ ]*include[ ]*<(Eigen|nlohmann)' "$work/moved/include" | grep -v -e '/core/cuda/' -e '/ops/interop_eigen.h$'; then
    echo "FAILED: the installed headers above include what a consumer need not have"
    exit 1
  fi
  # What the library is made of is not the consumer's business: it must link without.
  step cmake -S "$source/tests/consumers/installed" -B "$work/consumer" "${settings[@]}" \
    -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON
}

# Through pkg-config, and with AddressSanitizer in the program alone: what is inline in the headers must be the same
# there as in the library.
without_cmake() {
  command -v pkg-config >/dev/null || return 0
  local flags pc
  pc=$(dirname "$(find "$work/moved" -name cotangent.pc)")
  read -r -a flags <<<"$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs cotangent)"
  step "$(cached CMAKE_CXX_COMPILER)" -O1 -fsanitize=address "$source/tests/consumers/main.cpp" "${flags[@]}" \
    -o "$work/sanitized"
  ASAN_OPTIONS=protect_shadow_gap=0 step "$work/sanitized"  # which CUDA needs
}

case $case in
  installed)
    installed_consumer "$build"
    without_cmake
    ;;
  shared)
    step cmake -S "$source" -B "$work/library" "${settings[@]}" "${library_settings[@]}" -DBUILD_SHARED_LIBS=ON \
      -DCOTANGENT_BUILD_TESTS=OFF -DCOTANGENT_BUILD_EXAMPLES=OFF -DCOTANGENT_BUILD_BENCH=OFF
    step cmake --build "$work/library"
    installed_consumer "$work/library"
    ;;
  subdirectory | fetchcontent)
    # One of them without CUDA, whatever BUILD_DIR has: what does not know of CUDA is the same object.
    [ "$case" != subdirectory ] || library_settings+=(-DCOTANGENT_CUDA=OFF)
    step cmake -S "$source/tests/consumers/$case" -B "$work/consumer" "${settings[@]}" "${library_settings[@]}" \
      -DCOTANGENT_SOURCE="$source"
    ;;
  *)
    echo "unknown case: $case"
    exit 2
    ;;
esac
step cmake --build "$work/consumer"
if ldd "$work/consumer/consumer" | grep -i cublas; then
  echo "FAILED: the program does not start where there is no cuBLAS, or starts 0.1 s later; it is loaded when it is wanted"
  exit 1
fi
"$work/consumer/consumer"
[ ! -x "$work/consumer/tests" ] || "$work/consumer/tests"
# An op of a consumer's own, compiled with what was installed, whatever the library's build folder has.
if [ -x "$work/consumer/loader" ]; then
  COTANGENT_CACHE=$work/cache step "$work/consumer/loader" "$source/examples/custom_op/bump"
  grep -q "bump: right" "$work/step.log"
fi
echo "$case: built and run; $(wc -l <"$REUSE_LOG") objects reused, program $(stat -c %s "$work/consumer/consumer") bytes"
rm -rf "$work"
