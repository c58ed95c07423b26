#!/usr/bin/env bash
# Includes go one way: core <- ops/engine <- autograd <- ops <- nn <- examples, bench, python. Public headers include neither
# Eigen nor CUDA nor any other library, so that consumers need none of them; the bridge to Eigen alone includes it. Tests may see everything.
#   usage: includes.sh SOURCE_DIR
set -euo pipefail
cd "${1:?source folder}"

folders=()
for folder in core autograd ops nn examples bench python; do
  [ ! -d "$folder" ] || folders+=("$folder")
done
# shellcheck disable=SC2016  # the program is awk's
find "${folders[@]}" -type f \
  \( -name '*.h' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' \) ! -name '*_test.*' -print0 |
  sort -z | xargs -0 -r awk '
  BEGIN {
    rank["core"] = 0; rank["ops/engine"] = 1; rank["autograd"] = 2; rank["ops"] = 3; rank["nn"] = 4
    rank["examples"] = 5; rank["bench"] = 5; rank["python"] = 5
  }
  # The house that a file is in.
  function house(path, part) { return split(path, part, "/") && path ~ /^ops\/engine\// ? "ops/engine" : part[1] }
  function complain(text) { printf "%s:%d: %s\n    %s\n", FILENAME, FNR, text, $0; bad = 1 }
  FNR == 1 {
    ++files
    own = house(FILENAME)
    level = rank[own]
    if (FILENAME ~ /_bench\.(cpp|cu)$/) { own = "bench"; level = 5 }
    # Not public: headers that the install leaves out, and those that a writer of CUDA code includes knowingly.
    public = FILENAME ~ /\.h$/ && level < 5 && FILENAME !~ /_(kernels|cpu|cuda|plain|internal)(_[a-z0-9_]+)?\.h$/ &&
             FILENAME !~ /^(core\/cuda|core\/simd|ops\/engine|ops\/attention\/mma)\// && FILENAME != "ops/interop_eigen.h"
  }
  /^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    target = $0
    sub(/^[^<"]*[<"]/, "", target)
    sub(/[>"].*$/, "", target)
    if (target ~ /\.\.\//) { complain("an include must not climb with ../; write <cotangent/...>"); next }
    if (target == "cotangent/cotangent.h") {
      if (level < 5) complain("the umbrella header is for programs; include what is used")
      next
    }
    if (target == "cotangent/ops.h") {
      if (level < 4) complain("cotangent/ops.h stands above this folder")
      next
    }
    sub(/^cotangent\//, "", target)
    to = house(target)
    if (to in rank && target ~ /\//) {
      if (rank[to] > level) complain(own " must not include " to ": core <- ops/engine <- autograd <- ops <- nn <- examples, bench")
      if (rank[to] == 5 && to != own) complain("examples and bench are not for others to include")
    }
    if (target ~ /^ops\/testing\// && level < 5 && FILENAME !~ /^ops\/testing\/|_(samples|oracle)\.cpp$/)
      complain("what ops are tested with (Cotangent::testing) is not for the library to include")
    if (public && (target ~ /^(Eigen|unsupported|nlohmann|cuda|cublas|thrust|cub|nvtx3|nccl|CLI|benchmark)/ || target == "zlib.h"))
      complain("a public header must not include another library")
  }
  END {
    if (!bad) printf "%d files, every include goes the right way\n", files
    exit bad
  }'
