#!/usr/bin/env python3
"""Files that comments and documents name exist, and comments begin with the thing that they describe.

A word that looks like a file of this project (gemm_cpu.h, ops/sum_to.*, rows_{cpu,cuda}.h, gemm_*) must be the end of
the path of one that is there. Links of documents are resolved from where they stand. A name in parentheses behind a
file, in a README's line "Read first:", must occur in that file. No line of a comment begins with What, Of, Whose or
Those. Exit 77: this is no git checkout.
   usage: names.py SOURCE_DIR
"""
import fnmatch
import itertools
import os
import re
import subprocess
import sys

FOLDERS = ("core/", "autograd/", "ops/", "nn/", "examples/", "bench/", "tests/", "cmake/", "python/")
CODE = (".h", ".cpp", ".cu", ".cuh", ".inc")
KINDS = "h|cpp|cu|cuh|inc|md|py|sh|cmake"
NAME = re.compile(rf"(?<![\w./*{{}}$-])[\w./*{{}},-]*[\w*}}]\.(?:{KINDS})(?![\w([])")
GLOB = re.compile(r"(?<![\w./*{}$-])(?:[a-z0-9_/.-]*[a-z0-9_]_\*|[a-z0-9_/-]+\.\*)(?![\w(*/.])")
LINK = re.compile(r"(?<![&=\[])\]\(([^)#:\s]+)(?:#[^)]*)?\)")  # not behind what a lambda captures
PLACEHOLDER = re.compile(r"(?:^|[/_.])(?:NAME|ROOM|DIR|FILE|FOLDER|LINE|PROGRAM)(?=[/_.]|$)")
FIRST = re.compile(r"`([^`\s]+)` \(([^)]*)\)")
HEADLESS = re.compile(r"(?:[/*#]+[!<]*|\"{3}|\'{3})?[-*\s]*(What|Of|Whose|Those)\b")

OUTSIDE = {  # of others, or made while building
    "mini.h", "cotangent.h", "cotangent/cotangent.h", "cotangent/ops.h", "ops.h", "core/core.h", "app.cpp", "squash_bench.cpp",
    "cuda.h", "cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "immintrin.h", "nvtx3.h", "CotangentConfig.cmake",
}


def comments(path, text):
    """(line, text) of what people read in a file."""
    if path.endswith(".md"):
        return list(enumerate(text.split("\n"), 1))
    if not path.endswith(CODE):
        return [(n, match[1]) for n, line in enumerate(text.split("\n"), 1)
                if (match := re.search(r"(?:^|\s)r?((?:#|\"{3}|\'{3}).*)", line))]
    token = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
    found = []
    for match in token.finditer(text):
        if match.group().startswith(("//", "/*")):
            line = text.count("\n", 0, match.start()) + 1
            found += enumerate(match.group().split("\n"), line)
    return found


def alternatives(name):
    """a_{b,c}.h -> a_b.h, a_c.h"""
    parts = re.split(r"\{([^{}]*)\}", name)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def main():
    os.chdir(sys.argv[1])
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True)
    if listed.returncode != 0:
        print("skipped: not a git checkout")
        return 77
    files = [name for name in listed.stdout.split("\n") if name and os.path.isfile(name)]
    ends = {"/".join(parts[i:]) for parts in (name.split("/") for name in files) for i in range(len(parts))}

    def exists(name):
        name = re.sub(r"^(?:\.{1,2}/)+|^cotangent/(?=\w+/)", "", name)
        if name.startswith("_"):  # an ending
            return any(end.endswith(name) for end in ends)
        return name in ends or "*" in name and any(fnmatch.fnmatchcase(end, name) for end in ends)

    def nearest(path, name):
        """The file of this name that shares most folders with `path`."""
        shared = lambda file: len(os.path.commonprefix([path.split("/"), file.split("/")]))
        return max((f for f in files if ("/" + f).endswith("/" + name)), key=shared, default=None)

    bad = count = 0

    def complain(path, line, text):
        nonlocal bad
        bad += 1
        print(f"{path}:{line}: {text}")

    for path in files:
        document = path.endswith(".md")
        script = path == "ct" or path.endswith((".cmake", "CMakeLists.txt"))
        if not (document or script or path.endswith((*CODE, ".py", ".sh"))):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        names = document or script or path.endswith(CODE) and path.startswith(FOLDERS)
        for line, words in comments(path, text):
            if not document and (first := HEADLESS.match(words)):
                complain(path, line, f"a comment begins with {first[1]}; begin with the thing that it describes")
            if not names:
                continue
            words = re.sub(r"https?://\S+", "", words)
            if document:
                for link in LINK.findall(words):
                    count += 1
                    if not os.path.exists(os.path.join(os.path.dirname(path), link)):
                        complain(path, line, f"the link {link} leads nowhere")
                words = LINK.sub("]", words)
            # In code, warp_* are functions.
            globs = [name for name in GLOB.findall(words) if document or "/" in name or ".*" in name]
            for name in itertools.chain.from_iterable(map(alternatives, NAME.findall(words) + globs)):
                count += 1
                if not (exists(name) or name in OUTSIDE or PLACEHOLDER.search(name)):
                    complain(path, line, f"{name} does not exist")
        if document:
            # A paragraph may go over several lines.
            for first in re.finditer(r"^\*\*Read first:\*\*(?:.+\n)+", text, re.M):
                line = text.count("\n", 0, first.start()) + 1
                for name, inside in FIRST.findall(first.group().replace("\n", " ")):
                    there = nearest(path, name)
                    for word in re.findall(r"`([^`]+)`", inside):
                        count += 1
                        if there is None or not re.search(rf"\b{re.escape(word)}\b", open(there, encoding="utf-8").read()):
                            complain(path, line, f"{name} has no {word}")
    if bad == 0:
        print(f"{count} names of files, links and places exist")
    return 1 if bad else 0


sys.exit(main())
