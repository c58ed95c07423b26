#!/usr/bin/env bash
# Lines of code: what is neither blank nor comment, tests and benchmarks apart.
#   usage: lines.sh SOURCE_DIR [--total]
set -euo pipefail
cd "${1:?source folder}"

count() {  # count FOLDER KIND
  find "$1" -type f \( -name '*.h' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' \) 2>/dev/null |
    if [ "$2" = code ]; then grep -Ev '_(test|bench)\.(cpp|cu)$'; else grep -E '_(test|bench)\.(cpp|cu)$'; fi |
    xargs -r cat | grep -Evc '^[[:space:]]*(//.*)?$' || true
}
total=0
text=""
for folder in core autograd ops nn; do
  lines=$(count "$folder" code)
  total=$((total + lines))
  text="$text$folder $lines, "
done
if [ "${2:-}" = --total ]; then
  echo "$total"
  exit
fi
tests=$(find tests -type f -name '*.cpp' -exec cat {} + 2>/dev/null | grep -Evc '^[[:space:]]*(//.*)?$' || true)
for folder in core autograd ops nn; do tests=$((tests + $(count "$folder" test))); done
echo "${text}together $total lines of code; tests and benchmarks $tests"
