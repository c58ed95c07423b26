#!/usr/bin/env bash
# clang-tidy 14 (.clang-tidy) over every .cpp of the library that BUILD_DIR compiles, and the headers they include, in the
# batches of cmake/CotangentFlags.cmake: most of the time goes into headers, which are then read once a batch. Not read:
# .cu files, tests and what they test ops with, benchmarks and examples. Exit 77: clang-tidy 14 is not here.
#   usage: tidy.sh SOURCE_DIR BUILD_DIR [FOLDER...]
#   FOLDER: as in core, ops/softmax; without any, all of them
set -euo pipefail
cd "${1:?source folder}"
build=$(cd "${2:?build folder}" && pwd)
shift 2

tool=""
for candidate in clang-tidy-14 clang-tidy; do
  if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 14\.'; then
    tool=$candidate
    break
  fi
done
if [ -z "$tool" ]; then
  echo "skipped: clang-tidy 14 was not found (apt install clang-tidy-14)"
  exit 77
fi

work=$build/checks/tidy
rm -rf "$work"
mkdir -p "$work"
# One file for each batch, and the flags that the library's files have in common.
python3 - "$PWD" "$build" "$work" "$@" <<'PYTHON'
import json, os, shlex, sys
source, build, work, folders = *sys.argv[1:4], sys.argv[4:]
batches = {}
for line in open(build + "/batches.txt"):
    batch, file = line.split()
    if not file.endswith(("_samples.cpp", "_oracle.cpp")) and (not folders or os.path.dirname(file) in folders):
        batches.setdefault(batch, []).append(file)
words = next(shlex.split(e["command"]) for e in json.load(open(build + "/compile_commands.json"))
             if "CMakeFiles/cotangent_host.dir" in e["command"])
flags = ["-I" + build + "/generated", "-Wno-everything"] + [w for w in words if w.startswith(("-D", "-I", "-std="))]
for i, word in enumerate(words):
    if word == "-isystem":
        flags += ["-isystem", words[i + 1]]
open(work + "/flags", "w").write("\n".join(flags))
for batch, files in batches.items():
    with open(work + "/" + batch.replace("/", "_").removesuffix(".cpp") + ".cpp", "w") as out:
        out.writelines('#include "%s/%s"\n' % (source, f) for f in sorted(files))
print(sum(map(len, batches.values())), "files in", len(batches), "batches")
PYTHON

mapfile -t flags <"$work/flags"
export tool
one() {
  "$tool" --config-file=.clang-tidy --quiet "$1" -- "${@:2}" 2>"$1.log" && return
  grep -E 'error:' "$1.log" || true
  return 1
}
export -f one
find "$work" -name '*.cpp' -print0 | sort -z | xargs -0 -P "$(nproc)" -I {} bash -c 'one "$@"' one {} "${flags[@]}"
rm -rf "$work"
echo "clang-tidy: nothing to say"
