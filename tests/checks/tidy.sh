#!/usr/bin/env bash
# clang-tidy 14 (.clang-tidy) over every .cpp of the library that BUILD_DIR compiles, and the headers they include. The
# files of a folder are read as one: most of the time goes into headers, which are then read once a folder. Not read: .cu
# files, tests, benchmarks and examples. Exit 77: clang-tidy 14 is not here.
#   usage: tidy.sh SOURCE_DIR BUILD_DIR [FOLDER...]
#   FOLDER: as in core, ops/softmax; without any, all of them
set -euo pipefail
cd "${1:?source folder}"
build=$(cd "${2:?build folder}" && pwd)
shift 2

# These give a name of their own folder a second meaning, and are read alone.
apart="core/cpu_allocator.cpp nn/io/npy.cpp nn/io/npz.cpp nn/io/safetensors_header.cpp nn/optim/grad_scaler.cpp nn/text/pattern_compiler.cpp"

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
# One file for each folder, and the flags that the library's files have in common.
python3 - "$PWD" "$build" "$work" "$apart" "$@" <<'PYTHON'
import json, os, shlex, sys
source, build, work, apart, folders = *sys.argv[1:5], sys.argv[5:]
def group_of(file):
    """The files that are read as one: a folder's; in a room of ops those of an op, its plain kernels, oracle and samples apart."""
    folder, name = os.path.split(file)
    if not folder.startswith("ops/") or folder.startswith("ops/engine"):
        return folder
    ops = [n[:-2] for n in os.listdir(folder) if n.endswith(".h") and os.path.exists(folder + "/" + n[:-2] + ".cpp")]
    op = max((o for o in ops if name.startswith(o)), key=len, default="")
    return folder + "/" + op + next((part for part in ("_plain", "_oracle", "_samples") if name.endswith(part + ".cpp")), "")

units, flags = {}, None
for entry in json.load(open(build + "/compile_commands.json")):
    file = os.path.relpath(entry["file"], source)
    if not file.endswith(".cpp") or "CMakeFiles/cotangent" not in entry["command"] or file.startswith(".."):
        continue
    folder = os.path.dirname(file)
    if not folder.split("/")[0] in ("core", "autograd", "ops", "nn") or folders and folder not in folders:
        continue
    units.setdefault(file if file in apart.split() else group_of(file), []).append(entry["file"])
    if flags is None:
        words = shlex.split(entry["command"])
        flags = ["-I" + build + "/generated", "-Wno-everything"]
        flags += [w for w in words if w.startswith(("-D", "-I", "-std="))]
        for i, word in enumerate(words):
            if word == "-isystem":
                flags += ["-isystem", words[i + 1]]
open(work + "/flags", "w").write("\n".join(flags))
for unit, files in units.items():
    with open(work + "/" + unit.replace("/", "_").removesuffix(".cpp") + ".cpp", "w") as out:
        out.writelines('#include "%s"\n' % f for f in sorted(files))
print(sum(map(len, units.values())), "files of", len(units), "folders and files")
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
