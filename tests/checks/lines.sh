#!/usr/bin/env bash
# Lines of code: what is neither blank nor comment, tests and benchmarks apart.
#   usage: lines.sh SOURCE_DIR [--total | --folders]
#   --folders: a table, the lines of each folder without those of the folders in it
set -euo pipefail
cd "${1:?source folder}"

count() {  # count FOLDER KIND [DEPTH]
  find "$1" -maxdepth "${3:-99}" -type f \( -name '*.h' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' \) 2>/dev/null |
    if [ "$2" = code ]; then grep -Ev '_(test|bench)\.(cpp|cu)$'; else grep -E '_(test|bench)\.(cpp|cu)$'; fi |
    xargs -r cat | grep -Evc '^[[:space:]]*(//.*)?$' || true
}
if [ "${2:-}" = --folders ]; then
  find core autograd ops nn -type d 2>/dev/null | sort | while read -r folder; do
    lines=$(count "$folder" code 1)
    [ "$lines" -eq 0 ] || echo "$folder $lines"
  done
  exit
fi
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
