#!/usr/bin/env bash
# clang-tidy 14 (.clang-tidy) over every .cpp of the library that BUILD_DIR compiles, and the headers they include. Most of
# the time goes into headers, which it reads and judges anew for each file: so the batches of cmake/CotangentFlags.cmake
# are put together further, as far as no two of a group define the same name. Not read: .cu files, tests and what they
# test ops with, benchmarks and examples. Exit 77: clang-tidy 14 is not here.
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
# One file for each group, and the flags that the library's files have in common.
python3 - "$PWD" "$build" "$work" "$@" <<'PYTHON'
import json, os, re, shlex, sys
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


def own_names(file):
    """Names that a file may define for itself alone: clang-format leaves them at the start of a line."""
    kinds = (r"using (?:[\w:]+::)?(\w+)(?: =|;)", r"(?:struct|class|enum|union)(?: class)? (\w+)",
             r"[A-Za-z][\w:<>,&*\s.]*?[ &*](\w+)(?:[(\[{;]| =)")
    text = open(file).read()
    return {name for kind in kinds for name in re.findall("^" + kind, text, re.M)}


# Nearly every op has these names. In copies of the files they get the batch's number, so that several ops fit into a group.
every_op = {"kInputs", "kOutputs", "kAttributes", "cost", "infer", "rule"}
own = {batch: set().union(*(own_names(os.path.join(source, f)) for f in files)) for batch, files in batches.items()}
groups = []  # batches, the names that they have for themselves, and types and constants that they use
for number, batch in enumerate(sorted(batches, key=lambda b: (-len(own[b]), b))):
    renamed = "|".join(sorted(own[batch] & every_op) or ["$."])
    used = set()
    for file in batches[batch]:
        text = open(os.path.join(source, file)).read()
        used.update(re.findall(r"(?<![:.\w])k?[A-Z]\w*", text))
        copy = os.path.join(work, file)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        open(copy, "w").write(re.sub(r"(?<![.:\w])(%s)\b" % renamed, r"\1_%d" % number, text))
    names = own[batch] - every_op
    for group, taken, seen in groups:
        if len(group) < 14 and not taken & (names | used - every_op) and not seen & names:
            break
    else:
        groups.append((group := [], taken := set(), seen := set()))
    group.append(batch)
    taken |= names
    seen |= used
for number, (group, *_) in enumerate(groups):
    with open("%s/%d.cpp" % (work, number), "w") as out:
        for batch in group:
            out.write("// %s\n" % batch)
            out.writelines('#include "%s/%s"\n' % (work, f) for f in sorted(batches[batch]))
print(sum(map(len, batches.values())), "files in", len(groups), "groups")
PYTHON

mapfile -t flags <"$work/flags"
export tool work
one() {
  "$tool" --config-file=.clang-tidy --quiet "$1" -- "${@:2}" 2>"$1.log" >"$1.out" && return
  # Names met after all: each batch alone.
  if [ "$(grep -c '^//' "$1")" -gt 1 ] && grep -q clang-diagnostic-error "$1.out"; then
    sed -i "s|\"$work/|\"$PWD/|" "$1"
    csplit -sz -f "$1." -b '%d.cpp' "$1" '/^\/\//' '{*}'
    local file status=0
    for file in "$1".*.cpp; do one "$file" "${@:2}" || status=1; done
    return $status
  fi
  sed "s|$work/||g" "$1.out"
  grep -E 'error:' "$1.log" || true
  return 1
}
export -f one
find "$work" -maxdepth 1 -name '*.cpp' -print0 | sort -z | xargs -0 -P "$(nproc)" -I {} bash -c 'one "$@"' one {} "${flags[@]}"
rm -rf "$work"
echo "clang-tidy: nothing to say"
