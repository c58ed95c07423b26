#!/usr/bin/env bash
# Consumers' code compiles at -O3 without a warning (accepted.cpp); calls that would mean something else than
# they say do not compile, and the message says why (refused.cpp).
#   usage: api.sh SOURCE_DIR BUILD_DIR COMPILER
set -euo pipefail
checks=$(cd "${1:?source folder}/tests/checks" && pwd)
include=${2:?build folder}/include
compiler=${3:?compiler}
export LC_ALL=C
compile() { "$compiler" -std=c++20 -I "$include" "$@"; }

compile -O3 -Wall -Wextra -Werror -c -o /dev/null "$checks/accepted.cpp"

# Without Eigen on the include path its header says what is missing.
if messages=$(compile -fsyntax-only -include cotangent/ops/interop_eigen.h -x c++ - 2>&1 <<<'') ||
  ! grep -qF 'put the folder with Eigen/Core on the include path' <<<"$messages"; then
  echo "interop_eigen.h does not say that it needs Eigen: $messages"
  exit 1
fi

# Below C++20 the first error says so, whichever header comes first.
for header in cotangent.h core/tensor/tensor.h nn/nn.h ops/creation/creation.h; do
  messages=$("$compiler" -std=c++17 -I "$include" -fsyntax-only -include "cotangent/$header" -x c++ - 2>&1 <<<'' || true)
  if ! grep -m1 'error:' <<<"$messages" | grep -qF 'Cotangent needs C++20'; then
    echo "cotangent/$header does not begin with an error that asks for C++20: ${messages:0:500}"
    exit 1
  fi
done

# One compilation; the messages that follow the mention of a line, up to that of another line, are that line's.
if messages=$(compile -fsyntax-only -Wno-all -Werror=unused-result -fmax-errors=0 "$checks/refused.cpp" 2>&1); then
  echo "refused.cpp compiles"
  exit 1
fi
awk '
  FNR == NR {
    if (match($0, /refused\.cpp:[0-9]+:/)) {
      line = substr($0, RSTART + 12, RLENGTH - 13)
      if ($0 ~ /error:/) errors[line] = 1
    }
    if ($0 ~ /error:/ && line) errors[line] = 1
    said[line] = said[line] "\n" $0
    next
  }
  /; +\/\/ refused: / {
    ++count
    text = $0
    sub(/.*\/\/ refused: /, "", text)
    if (!(FNR in errors)) { printf "compiles: %s\n", $0; bad = 1 }
    else if (!index(said[FNR], text)) { printf "no word of \"%s\" in the message of: %s%s\n", text, $0, said[FNR]; bad = 1 }
    delete errors[FNR]
  }
  END {
    for (line in errors) { printf "an error that is not expected: %s\n", said[line]; bad = 1 }
    if (!bad) printf "%d statements refused, each with a reason\n", count
    exit bad
  }' <(printf '%s\n' "$messages") "$checks/refused.cpp"
