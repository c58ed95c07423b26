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
  "-DCMAKE_CXX_COMPILER=$(cached CMAKE_CXX_COMPILER)" "-DCMAKE_CXX_FLAGS_RELEASE=$(cached CMAKE_CXX_FLAGS_RELEASE)")
library_settings=("-DCOTANGENT_CUDA=$(cached COTANGENT_CUDA)" "-DCOTANGENT_MARCH=$(cached COTANGENT_MARCH)"
  "-DCOTANGENT_CUDA_ARCHITECTURES=$(cached COTANGENT_CUDA_ARCHITECTURES)"
  "-DCOTANGENT_CUDA_COMPILE_ONLY=$(cached COTANGENT_CUDA_COMPILE_ONLY)"
  "-DCOTANGENT_WERROR=$(cached COTANGENT_WERROR)" "-DCOTANGENT_BATCH=$(cached COTANGENT_BATCH)"
  "-DCOTANGENT_SMALL=$(cached COTANGENT_SMALL)" -DCOTANGENT_PRECOMPILE=OFF  # for the few files that are compiled
  "-DCMAKE_CXX_COMPILER_LAUNCHER=$source/tests/consumers/reuse.sh"
  "-DCMAKE_CUDA_COMPILER_LAUNCHER=$source/tests/consumers/reuse.sh")
export REUSE_TREE=$build REUSE_SOURCE=$source REUSE_LOG=$work/reused.log
: >"$REUSE_LOG"

# Includes of before.cpp.
sed -n 's/^  "\([^ ]*\) .*/#include <cotangent\/\1>/p' "$source/cmake/CotangentMoved.cmake" >"$work/old_paths.h"

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
  # The consumer must link without the libraries that this one was built with.
  step cmake -S "$source/tests/consumers/installed" -B "$work/consumer" "${settings[@]}" \
    -DCMAKE_PREFIX_PATH="$work/moved" -DOLD_PATHS="$work" -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON
}

# Through pkg-config: each library by itself, in a standard that the program chooses. The first with AddressSanitizer in the program
# alone: what is inline in the headers must be the same there as in the library.
without_cmake() {
  command -v pkg-config >/dev/null || return 0
  local flags pc name
  pc=$(dirname "$(find "$work/moved" -name cotangent.pc)")
  program() {  # program PACKAGE SOURCE FLAGS...
    read -r -a flags <<<"$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs "$1")"
    [[ " ${flags[*]} " != *" -std="* ]] || { echo "FAILED: $1.pc chooses the standard"; exit 1; }
    step "$(cached CMAKE_CXX_COMPILER)" -std=c++20 -O1 "${@:3}" "$2" "${flags[@]}" -o "$work/$1"
  }
  program cotangent "$source/tests/consumers/main.cpp" -fsanitize=address
  ASAN_OPTIONS=protect_shadow_gap=0 step "$work/cotangent"  # which CUDA needs
  program cotangent_testing "$source/tests/consumers/before.cpp" -std=c++23 -I "$work"
  step "$work/cotangent_testing"
  program cotangent_samples "$source/tests/consumers/tests.cpp"
  step "$work/cotangent_samples"
  program cotangent_loader "$source/tests/consumers/loader.cpp"
  COTANGENT_CACHE=$work/cache step "$work/cotangent_loader" "$source/examples/custom_op/bump"
  for name in "io nn/io/npy.h ct::io::load_npy" "image nn/data/image.h ct::data::read_image" "plugin nn/plugin/load_op.h ct::build_op"; do
    read -r -a name <<<"$name"
    printf '#include <cotangent/%s>\nint main(int argc, char**) { if (argc > 1) %s(""); }\n' "${name[@]:1}" >"$work/${name[0]}.cpp"
    program "cotangent_${name[0]}" "$work/${name[0]}.cpp"
    step "$work/cotangent_${name[0]}"
  done
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
    if [ "$case" = subdirectory ]; then
      # Configures as if no GPU were there, whatever BUILD_DIR has: without CUDA then. (Files that do not know of CUDA give the
      # same object.) And with all the warnings of a parent that wants none: the headers give none, and the library's own files,
      # of which one folder's are compiled here, are compiled without them.
      export REUSE_NOT='*unity_autograd*'
      library_settings+=(-DCOTANGENT_CUDA=AUTO -DCOTANGENT_NVIDIA_SMI=false -DCOTANGENT_WERROR=OFF
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror -Wconversion -Wshadow")
    elif grep -q 'WITH_CUDA ON' "$build/CotangentConfig.cmake"; then
      library_settings+=(-DCOTANGENT_CUDA=ON)  # by itself it is on only where a GPU is
    fi
    step cmake -S "$source/tests/consumers/$case" -B "$work/consumer" "${settings[@]}" "${library_settings[@]}" \
      -DCOTANGENT_SOURCE="$source" -DOLD_PATHS="$work"
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
for program in tests before; do
  [ ! -x "$work/consumer/$program" ] || "$work/consumer/$program"
done
# Linking removes what a program does not use (--gc-sections): this one asks the registry for nothing, and is small beside one
# that does. (1.3 MB to 5.6 MB; with CUDA, whose kernels stay with their tables, 7.9 to 15.)
if [ "$case" != shared ] && [ -x "$work/consumer/before" ] &&
  [ $((3 * $(stat -c %s "$work/consumer/before"))) -gt $((2 * $(stat -c %s "$work/consumer/consumer"))) ]; then
  echo "FAILED: a program keeps what it does not use of the library"
  exit 1
fi
# An op of a consumer's own, compiled with what was installed, whatever the library's build folder has.
if [ -x "$work/consumer/loader" ]; then
  COTANGENT_CACHE=$work/cache step "$work/consumer/loader" "$source/examples/custom_op/bump"
  grep -q "bump: right" "$work/step.log"
fi
echo "$case: built and run; $(wc -l <"$REUSE_LOG") objects reused, program $(stat -c %s "$work/consumer/consumer") bytes"
rm -rf "$work"
