#!/usr/bin/env bash
# Costs of using the library (rows S1-S5): time from clone to a trained model, build times, sizes,
# compile time of a consumer, lines of code. One JSON object a line on standard output, progress on standard
# error. Compilers run as they are: launchers such as ccache are switched off.
#   usage: bench/size.sh [--out FILE] [S1 S2 S3 S4 S5]    (default: all; S3 and S4 need S2's build and make it)
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
exec 3>&1
if [ "${1:-}" = --out ]; then
  exec 3>"$2"
  shift 2
fi
rows=" ${*:-S1 S2 S3 S4 S5} "
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER CMAKE_CUDA_COMPILER_LAUNCHER
work=$(mktemp -d "${TMPDIR:-/tmp}/cotangent-size.XXXXXX")
trap 'rm -rf "$work"' EXIT

commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)
cores=$(nproc)
note() { printf '%s\n' "$*" >&2; }
wants() { [[ $rows == *" $1 "* ]]; }
# row ROW NAME VALUE UNIT GOOD MOONSHOT: "good" and "moonshot" are upper bounds, or null
row() {
  local met=null
  [ "$5" = null ] || met=$(awk -v v="$3" -v g="$5" 'BEGIN {print (v < g) ? "true" : "false"}')
  printf '{"row": "%s", "name": "%s", "value": %s, "unit": "%s", "good": %s, "moonshot": %s, "met": %s, "cores": %s, "commit": "%s"}\n' \
    "$1" "$2" "$3" "$4" "$5" "$6" "$met" "$cores" "$commit" >&3
}
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN {printf "%.2f", b - a}'; }
quiet() {
  "$@" >"$work/log" 2>&1 || {
    tail -n 30 "$work/log" >&2
    note "failed: $*"
    exit 1
  }
}
# timed_build NAME CMAKE-ARGS...: a build from nothing, configuring included; prints seconds
timed_build() {
  local dir=$work/$1 start
  shift
  start=$(now)
  quiet cmake -S "$root" -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOTANGENT_BUILD_BENCH=OFF -DCOTANGENT_INSTALL=OFF "$@"
  quiet cmake --build "$dir" -j "$cores"
  since "$start"
}
megabytes() { awk -v b="$(stat -c %s "$1")" 'BEGIN {printf "%.3f", b / 1e6}'; }
stripped_megabytes() {
  cp "$1" "$work/stripped"
  strip "${@:2}" "$work/stripped"
  megabytes "$work/stripped"
}

if wants S1; then
  note "S1: clone, build, train"
  start=$(now)
  quiet git clone -q "$root" "$work/clone"
  quiet "$work/clone/ct" mnist --device cpu --out "$work/run" --json "$work/mnist.json"
  row S1 "clone to trained model (packages present)" "$(since "$start")" s 300 120
  accuracy=$(sed -n 's/.*"test_accuracy": *\([0-9.]*\).*/\1/p' "$work/mnist.json" | head -n 1)
  row S1 "test accuracy of that model" "${accuracy:-null}" fraction null null
fi

if wants S2 || wants S3 || wants S4; then
  note "S2: CPU build"
  seconds=$(timed_build cpu -DCOTANGENT_CUDA=OFF -DCOTANGENT_BUILD_TESTS=OFF)
  if wants S2; then row S2 "CPU build: library and examples" "$seconds" s 180 90; fi
fi
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
if [ -n "$nvcc" ] && { wants S2 || wants S3; }; then
  note "S2: CPU and CUDA build"
  seconds=$(timed_build cuda -DCOTANGENT_CUDA=ON -DCOTANGENT_CUDA_ARCHITECTURES=90a-real -DCOTANGENT_BUILD_TESTS=OFF)
  if wants S2; then row S2 "CPU and CUDA build, sm_90a: library and examples" "$seconds" s 720 360; fi
fi

if wants S3; then
  # Sizes of loadable code are compared: an archive is mostly relocations and names of sections.
  quiet c++ -shared -o "$work/libcotangent.so" -Wl,--whole-archive "$work/cpu/libcotangent.a" "$work/cpu/libcotangent_io.a" -Wl,--no-whole-archive -lz
  row S3 "CPU shared library, stripped" "$(stripped_megabytes "$work/libcotangent.so")" MB 5 2
  row S3 "CPU static library, as installed" "$(stripped_megabytes "$work/cpu/libcotangent.a" -g)" MB null null
  row S3 "CPU static mnist program, stripped" "$(stripped_megabytes "$work/cpu/bin/mnist")" MB 5 2
  if [ -n "$nvcc" ]; then
    row S3 "CUDA static library, sm_90a" "$(stripped_megabytes "$work/cuda/libcotangent.a" -g)" MB 25 10
    row S3 "CUDA static mnist program, sm_90a, stripped, cuBLAS apart" \
      "$(stripped_megabytes "$work/cuda/bin/mnist")" MB 25 10
  fi
fi

if wants S4; then
  note "S4: a consumer's compile time"
  cat >"$work/hello.cpp" <<'CPP'
#include <cotangent/cotangent.h>

#include <iostream>

int main() { std::cout << ct::rand({2, 3}) << '\n'; }
CPP
  times=()
  for _ in 1 2 3 4 5; do
    start=$(now)
    quiet c++ -std=c++20 -O2 -I"$work/cpu/include" -c "$work/hello.cpp" -o "$work/hello.o"
    times+=("$(since "$start")")
  done
  row S4 "compile hello.cpp at -O2, median of 5" "$(printf '%s\n' "${times[@]}" | sort -n | sed -n 3p)" s 2 1
fi

if wants S5; then
  row S5 "lines of code in core, autograd, ops, nn" "$("$root/tests/checks/lines.sh" "$root" --total)" lines null null
fi
