#!/usr/bin/env bash
# Lines of code, neither blank nor comment, without tests and benchmarks. The library is what trains: what ops are
# tested with (Cotangent::testing and ::samples: ops/testing, *_samples.cpp and *_oracle.cpp), file formats (nn/io, with them nn/explain and nn/profile) and
# tokenizers (nn/text) are counted apart, and so is the Python package without its tests.
#   usage: lines.sh SOURCE_DIR [--total | --folders]
#   --total: all of them
#   --folders: a table, the lines of each folder without those of the folders in it; `testing` is one of its rows
set -euo pipefail
cd "${1:?source folder}"

count() {  # count KIND FOLDER [DEPTH]; KIND: code, testing or test
  find "$2" -maxdepth "${3:-99}" -type f \( -name '*.h' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' \) 2>/dev/null |
    awk -v kind="$1" '
      { own = /_(test|bench)\.(cpp|cu)$/ ? "test" : /^ops\/testing\/|_(samples|oracle)\.cpp$/ ? "testing" : "code" }
      own == kind' |
    xargs -r cat | grep -Evc '^[[:space:]]*(//.*)?$' || true
}
count_python() {  # of the package, its C++ and its generators; a docstring is documentation
  find python -path python/tests -prune -o -type f \( -name '*.h' -o -name '*.cpp' \) -exec cat {} + | grep -Evc '^[[:space:]]*(//.*)?$'
  python3 - <<'END'
import ast, pathlib, tokenize
total = 0
for path in set(pathlib.Path("python").rglob("*.py")) - set(pathlib.Path("python/tests").rglob("*.py")):
    first = [node.body[0] for node in ast.walk(ast.parse(path.read_text())) if isinstance(getattr(node, "body", None), list) and node.body]
    said = [one for one in first if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str)]
    with path.open() as file:
        code = {line for token in tokenize.generate_tokens(file.readline) if token.string.strip() and token.type != tokenize.COMMENT
                for line in range(token.start[0], token.end[0] + 1)}
    total += len(code - {line for one in said for line in range(one.lineno, one.end_lineno + 1)})
print(total)
END
}
python=$(($(count_python | paste -sd+)))

if [ "${2:-}" = --folders ]; then
  find core autograd ops nn -type d 2>/dev/null | sort | while read -r folder; do
    lines=$(count code "$folder" 1)
    [ "$lines" -eq 0 ] || echo "$folder $lines"
  done
  echo "testing $(count testing ops)"
  echo "python $python"
  exit
fi
io=$(($(count code nn/io) + $(count code nn/explain) + $(count code nn/profile))) text=$(count code nn/text) testing=$(count testing ops)
library=0 folders=""
for folder in core autograd ops nn; do
  lines=$(count code "$folder")
  [ "$folder" != nn ] || lines=$((lines - io - text))
  library=$((library + lines))
  folders="$folders$folder $lines, "
done
total=$((library + io + text + testing))
if [ "${2:-}" = --total ]; then
  echo "$total"
  exit
fi
tests=$(find tests -type f -name '*.cpp' -exec cat {} + 2>/dev/null | grep -Evc '^[[:space:]]*(//.*)?$' || true)
for folder in core autograd ops nn; do tests=$((tests + $(count test "$folder"))); done
echo "${folders}together the library's $library lines of code; io $io, text $text, testing $testing, in all $total; tests and benchmarks $tests; the Python package $python"
