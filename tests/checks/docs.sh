#!/usr/bin/env bash
# Every C++ block of the documentation is compiled, but for the book's, which has a check of its own (docs/book/book.py); those with a main() are run, and where a ```text block
# follows directly, it must be what they print (numbers to three digits).
#   usage: docs.sh SOURCE_DIR BUILD_DIR COMPILER [FILE.md...]
# A block without main() is compiled as the inside of a function, or at file scope. Marks before a block:
#   <!-- continues -->            it goes on from the block before it: both are compiled together
#   <!-- not compiled: why -->    a sketch
set -euo pipefail
source=$(cd "${1:?source folder}" && pwd) build=$(cd "${2:?build folder}" && pwd) compiler=${3:?compiler}
shift 3
work=$build/checks/docs
rm -rf "$work"
mkdir -p "$work"
cd "$source"
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <({ ls README.md CONTRIBUTING.md; find docs ops nn examples -name '*.md' ! -path 'docs/book/*' | sort; } 2>/dev/null)
fi

# Cuts the blocks out: NAME.LINE.cpp, and NAME.LINE.text for the output expected of it.
for file in "${files[@]}"; do
  awk -v base="$work/$(echo "$file" | tr / _)" '
    /^[ ]*```/ && !inside {
      inside = 1
      language = $0
      sub(/^[ ]*```/, "", language)
      target = ""
      if (language ~ /^(cpp|c\+\+|cuda)$/ && !skip) {
        if (!(joins && last != "")) last = base "." FNR
        target = last ".cpp"
      } else if (language == "text" && last != "" && near <= 2) {
        target = last ".text"
      }
      if (language ~ /^(cpp|c\+\+|cuda)$/ && skip) last = ""
      skip = joins = 0
      next
    }
    /^[ ]*```/ && inside { inside = 0; near = 0; next }
    inside { if (target != "") print > target; next }
    { ++near }
    /^<!-- not compiled: ..*-->/ { skip = 1 }
    /^<!-- continues -->/ { joins = 1 }
  ' "$file"
done

read -r -a libraries < <(sed -n 's/^Libs: .* -lcotangent //p' "$build/cotangent.pc")
compile() { "$compiler" -std=c++20 -O1 -I "$build/include" "$@"; }
count=0 ran=0
shopt -s nullglob
check() {
  local block=$1 name program
  name=$(basename "$block" .cpp)
  program=$work/$name
  if grep -q 'int main(' "$block"; then
    compile "$block" "$build/libcotangent_io.a" "$build/libcotangent.a" "${libraries[@]}" -o "$program" || return 1
    (cd "$work" && timeout 300 "$program" >"$program.out") || {
      echo "it failed when run"
      return 1
    }
    if [ -e "$program.text" ]; then
      # Word by word; numbers may differ in the fourth digit between machines.
      paste -d '\n' <(tr -s '[:space:]' '\n' <"$program.text" | sed '/^$/d') \
        <(tr -s '[:space:]' '\n' <"$program.out" | sed '/^$/d') |
        awk 'NR % 2 { want = $0; next }
             { a = want; b = $0; gsub(/[][(){},]/, "", a); gsub(/[][(){},]/, "", b)
               number = "^-?[0-9.]+(e[-+]?[0-9]+)?$"
               if (a ~ number && b ~ number) { d = a - b; if (d < 0) d = -d; m = (a < 0 ? -a : a); if (d <= 1e-3 * m + 1e-6) next }
               if (want != $0) { printf "the text says \"%s\", the program \"%s\"\n", want, $0; exit 1 } }' || return 1
    fi
    return 0
  fi
  # Includes stand at the top whatever the block is.
  {
    echo '#include <cotangent/cotangent.h>'
    grep '^#include' "$block" || true
    echo 'namespace nn = ct::nn; [[maybe_unused]] static void snippet() {'
    grep -v -e '^#include' -e '^namespace nn = ct::nn;' "$block"
    echo '}'
  } >"$program.inside.cpp"
  {
    echo '#include <cotangent/cotangent.h>'
    cat "$block"
  } >"$program.outside.cpp"
  compile -fsyntax-only "$program.inside.cpp" 2>"$program.inside.log" ||
    compile -fsyntax-only "$program.outside.cpp" 2>"$program.outside.log" || {
      cat "$program.inside.log"
      return 1
    }
}

status=0
for block in "$work"/*.cpp; do
  case $block in *.inside.cpp | *.outside.cpp) continue ;; esac
  if ! check "$block" >"$work/log" 2>&1; then
    echo "FAILED: $(basename "$block" .cpp) (file and line of the block)"
    tail -n 30 "$work/log"
    status=1
  fi
  count=$((count + 1))
  if grep -q 'int main(' "$block"; then ran=$((ran + 1)); fi
done
[ "$status" -eq 0 ] && echo "${#files[@]} documents, $count blocks compiled, $ran of them run"
exit $status
