#!/usr/bin/env bash
# Every installed header compiles alone, as a consumer would compile it: out of the installed prefix, with more warnings
# than this project asks for itself and all of them errors; but for the bridge to Eigen, which wants Eigen. With NVCC, the
# headers for CUDA code (core/cuda/) instead. Most of them include core/tensor/tensor.h, which takes ten times as long to parse
# as the rest. It is precompiled for those that include it, directly or through others, and for no other: so each still
# gets only what it includes itself.
#   usage: headers.sh BUILD_DIR COMPILER [NVCC]
set -euo pipefail
build=$(cd "${1:?build folder}" && pwd)
compiler=${2:?compiler}
nvcc=${3:-}
prefix=$build/checks/headers${nvcc:+_cuda}
rm -rf "$prefix"
cmake --install "$build" --prefix "$prefix" --component headers >/dev/null
cd "$prefix/include"

strict=(-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror)
one() {  # one HEADER COMMAND...: compiles a file that includes nothing else
  local header=$1
  shift
  printf '#include <%s>\n' "$header" >"$prefix/${header//\//.}.${suffix:-cpp}"
  "$@" "$prefix/${header//\//.}.${suffix:-cpp}" || {
    echo "not for consumers: $header"
    return 1
  }
}
export -f one
export prefix

if [ -n "$nvcc" ]; then
  mapfile -t headers < <(find cotangent/core/cuda -name '*.h' -o -name '*.cuh' | sort)
  export suffix=cu
  command=("$nvcc" -std=c++20 -arch=sm_90 -ccbin "$compiler" -Xcompiler=-Wall,-Wextra,-Werror -I . -o /dev/null --ptx)
else
  mapfile -t headers < <(find cotangent -name '*.h' ! -path 'cotangent/core/cuda/*' ! -name interop_eigen.h | sort)
  command=("$compiler" -std=c++20 "${strict[@]}" -fsyntax-only -I .)
fi
base=()
if [ -z "$nvcc" ]; then
  mkdir "$prefix/base"
  echo '#include <cotangent/core/tensor/tensor.h>' >"$prefix/base/base.h"
  "$compiler" -std=c++20 "${strict[@]}" -I . -x c++-header "$prefix/base/base.h" -o "$prefix/base/base.h.gch"
  # The headers that include tensor.h, directly or through others.
  leads=cotangent/core/tensor/tensor.h
  while mapfile -t base < <(grep -lE "^#include <($leads)>" "${headers[@]}") && joined=$(IFS='|'; echo "${base[*]}") &&
    [ "$leads" != "cotangent/core/tensor/tensor.h|$joined" ]; do leads="cotangent/core/tensor/tensor.h|$joined"; done
  printf '%s\n' "${base[@]}" | xargs -P "$(nproc)" -I {} bash -c 'one "$@"' one {} "${command[@]}" -Winvalid-pch \
    -include "$prefix/base/base.h"
fi
printf '%s\n' "${headers[@]}" | grep -vxF "$(printf '%s\n' "${base[@]}")" |
  xargs -P "$(nproc)" -I {} bash -c 'one "$@"' one {} "${command[@]}"

if [ -z "$nvcc" ]; then
  # All together: optimised, as the next standard, and through the other compiler.
  one cotangent/cotangent.h "$compiler" -std=c++20 -O3 "${strict[@]}" -I . -c -o /dev/null
  one cotangent/cotangent.h "$compiler" -std=c++23 -O1 "${strict[@]}" -I . -c -o /dev/null
  other=$(command -v clang++ clang++-14 | head -n 1 || true)
  if [ -n "$other" ]; then  # but for the notes of moved headers
    printf '#include <%s>\n' "${headers[@]}" >"$prefix/all.h"
    one ../all.h "$other" -std=c++20 -O2 "${strict[@]}" -Wno-pragma-once-outside-header "-Wno-#pragma-messages" -I . -c -o /dev/null
  fi
fi
rm -rf "$prefix"
echo "${#headers[@]} installed headers compile alone, ${#base[@]} of them after the tensor.h that they ask for"
