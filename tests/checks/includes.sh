#!/usr/bin/env bash
# Includes go one way: core <- autograd <- ops <- nn <- examples, bench, python. Public headers include neither Eigen
# nor CUDA nor any other library, so that consumers need none of them; the bridge to Eigen alone includes it. Tests may see everything.
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
    rank["core"] = 0; rank["autograd"] = 1; rank["ops"] = 2; rank["nn"] = 3
    rank["examples"] = 4; rank["bench"] = 4; rank["python"] = 4
  }
  function complain(text) { printf "%s:%d: %s\n    %s\n", FILENAME, FNR, text, $0; bad = 1 }
  FNR == 1 {
    ++files
    split(FILENAME, part, "/")
    own = part[1]
    level = rank[own]
    if (FILENAME ~ /_bench\.(cpp|cu)$/) { own = "bench"; level = 4 }
    # Not public: headers that the install leaves out, and those that a writer of CUDA code includes knowingly.
    public = FILENAME ~ /\.h$/ && level < 4 && FILENAME !~ /_(kernels|cpu|cuda|plain|internal)(_[a-z0-9_]+)?\.h$/ &&
             FILENAME !~ /^(core\/cuda|core\/simd|ops\/engine|ops\/attention\/mma)\// && FILENAME != "ops/interop_eigen.h"
  }
  /^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    target = $0
    sub(/^[^<"]*[<"]/, "", target)
    sub(/[>"].*$/, "", target)
    if (target ~ /\.\.\//) { complain("an include must not climb with ../; write <cotangent/...>"); next }
    if (target == "cotangent/cotangent.h") {
      if (level < 4) complain("the umbrella header is for programs; include what is used")
      next
    }
    if (target == "cotangent/ops.h") {
      if (level < 3) complain("cotangent/ops.h stands above this folder")
      next
    }
    sub(/^cotangent\//, "", target)
    split(target, part, "/")
    if (part[1] in rank && target ~ /\//) {
      if (rank[part[1]] > level) complain(own " must not include " part[1] ": core <- autograd <- ops <- nn <- examples, bench")
      if (rank[part[1]] == 4 && part[1] != own) complain("examples and bench are not for others to include")
    }
    if (target ~ /^ops\/testing\// && level < 4 && FILENAME !~ /^ops\/testing\/|_(samples|oracle)\.cpp$/)
      complain("what ops are tested with (Cotangent::testing) is not for the library to include")
    if (public && (target ~ /^(Eigen|unsupported|nlohmann|cuda|cublas|thrust|cub|nvtx3|nccl|CLI|benchmark)/ || target == "zlib.h"))
      complain("a public header must not include another library")
  }
  END {
    if (!bad) printf "%d files, every include goes the right way\n", files
    exit bad
  }'
