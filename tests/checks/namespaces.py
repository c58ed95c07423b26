#!/usr/bin/env python3
"""Namespaces follow folders: a file of core, autograd, ops or nn opens `ct`, whose names are for programs, and the namespace of its
folder, whose names are not.

The namespace of ops/softmax is ct::softmax_impl, that of ops/engine/fold ct::fold: the name of the room, engine or part of nn,
with _impl where ct has a function or a namespace of that name already. Parts of it are namespaces within it (ct::loss::mse). core
and autograd have ct::detail, and what kernels are made of ct::simd, ct::gpu and ct::jit. In ops and nn ct::detail is for what a
public header needs and programs do not: private headers do not open it. ct::plain is the plain twins'. The tables that macros fill
have namespaces of their own (TABLES), and so have a few names for programs (PUBLIC).
   usage: namespaces.py SOURCE_DIR
"""
import os
import re
import sys

TAKEN = {"capture", "concat", "explain", "indexing", "linear", "matmul", "profile", "scatter", "softmax"}
CORE = {"simd": {"simd"}, "jit": {"jit"}, "cuda": {"gpu", "mma", "detail"}}
TABLES = {"rooms", "kernel_tables", "cpu_kernels", "cuda_kernels", "plain_kernels", "oracle_kernels", "op_tests"}
PUBLIC = {
    "core/tensor": {"indexing"},
    "nn": {"nn"},
    "nn/models": {"nn::models", "io"},  # names that io had until 0.3
    "nn/parallel": {"nn"},
    "ops": {"rules"},  # what several rooms' rules are made of
    "ops/engine/map": {"simd"},  # functions of vectors, which formulas find by their arguments
    "ops/elementwise": {"map"},  # numbers of formulas that are tensors, likewise found by their arguments
    "ops/fusion": {"elementwise::binary"},  # an op without a function, declared where it is used; ops/loss likewise
    "ops/loss": {"elementwise::binary"},
    "ops/collective": {"dist"},
    "ops/sampling": {"distributions"},
}
PRIVATE = re.compile(r"_(kernels|cpu|cuda|plain|internal)(_[a-z0-9_]+)?\.(h|cuh)$|\.cuh$|/(engine|mma)/.*\.h$")
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|'
                   r'\bnamespace\s+(?P<name>[\w:]+)?\s*\{|[{}]', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)


def opened(text):
    """(line, name) of the namespaces that a file opens for others to see: none without a name, nor in such a one."""
    text = DIRECTIVE.sub(lambda directive: "\n" * directive[0].count("\n"), text)
    stack = []
    for token in TOKEN.finditer(text):
        if token[0].startswith("namespace"):
            stack.append(token["name"] or "")
            if "" not in stack:
                yield text.count("\n", 0, token.start()) + 1, "::".join(stack)
        elif token[0] == "{":
            stack.append("{")
        elif token[0] == "}" and stack:
            stack.pop()


def allowed(path):
    """The namespaces within ct that a file may open, parts of them included."""
    parts = path.split("/")[:-1]
    folder = "/".join(parts[:3] if parts[:2] == ["ops", "engine"] else parts[:2])
    names = TABLES | PUBLIC.get(folder, set())
    if parts[0] == "core":
        return names | CORE.get(parts[1], {"detail"})
    room = folder.rsplit("/", 1)[-1]
    names |= {room + "_impl" if room in TAKEN else room} if "/" in folder else set()
    if parts[0] == "autograd" or not PRIVATE.search(path):
        names.add("detail")
    if re.search(r"plain|oracle", os.path.basename(path)):
        names.add("plain")
    return names


def main():
    os.chdir(sys.argv[1])
    bad = count = 0
    for top in ("core", "autograd", "ops", "nn"):
        for folder, _, files in os.walk(top):
            for file in sorted(files):
                path = f"{folder}/{file}"
                if not re.search(r"\.(h|cuh|cpp|cu)$", file) or file.endswith(("_test.cpp", "_bench.cpp")):
                    continue
                names = allowed(path)
                for line, name in opened(open(path, encoding="utf-8").read()):
                    count += 1
                    inner = name.removeprefix("ct::")
                    if name == "ct" or inner != name and any(inner == n or inner.startswith(n + "::") for n in names):
                        continue
                    bad += 1
                    print(f"{path}:{line}: {name} is not this folder's; write one of ct::{', ct::'.join(sorted(names - TABLES))}")
    if bad == 0:
        print(f"{count} namespaces are their folders'")
    return 1 if bad else 0


sys.exit(main())
