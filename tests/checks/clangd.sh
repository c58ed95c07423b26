#!/usr/bin/env bash
# cmake/compile_commands.py gives clangd an entry for each source file, by which it compiles.
#   usage: clangd.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$(cd "$1" && pwd) build=$2
command -v clang++ >/dev/null || { echo "skipped: there is no clang++" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$source/cmake/compile_commands.py" "$build" "$work/compile_commands.json"
cd "$source"
mapfile -t files < <(find core autograd ops nn tests examples -name '*.cpp' -not -path 'tests/consumers/*' -not -path 'tests/add_op/*' \
  -not -path 'examples/op/template/*' -not -path 'tests/fuzz/libfuzzer.cpp' -not -name accepted.cpp -not -name refused.cpp)
python3 - "$work" "$source" "${files[@]}" <<'PYTHON'
import json, shlex, subprocess, sys
work, source, files = sys.argv[1], sys.argv[2], sys.argv[3:]
entries = {e["file"]: e for e in json.load(open(work + "/compile_commands.json"))}
missing = [f for f in files if f"{source}/{f}" not in entries and not f.endswith(("_cuda.cpp", "_nocuda.cpp")) and "/cuda/" not in f]
for file in missing:
    print(f"no entry: {file}")
for file in ("ops/softmax/softmax_cpu.cpp", "ops/softmax/softmax_test.cpp"):
    entry = entries[f"{source}/{file}"]
    words = shlex.split(entry["command"])
    words = ["clang++", "-fsyntax-only", "-w", *words[1:words.index("-o")], file]
    if subprocess.run(words, cwd=source).returncode:
        missing.append(file)
        print(f"does not compile: {shlex.join(words)}")
sys.exit(bool(missing))
PYTHON
echo "each source file has an entry"
