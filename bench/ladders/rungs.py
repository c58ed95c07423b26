#!/usr/bin/env python3
"""The rungs of a ladder one after the other, each as the difference to the rung before.

  rungs.py NAME [--device cpu|cuda]    (./ct ladder NAME --diff)

A rung is what its entry in the ladder names in that file: functions and kernels, with the comments above them, and
what these call there, as far as the rung before does not have it.
"""
import argparse
import difflib
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def functions(text):
    """{name: its text, comment and all} of the functions and structs at the left edge of a file."""
    found, lines, n = {}, text.split("\n"), 0
    while n < len(lines):
        if not re.match(r"(?!return|using|namespace|const bool kAdded|extern)[A-Za-z_\[]", lines[n]):
            n += 1
            continue
        start, depth, opened = n, 0, False
        while n < len(lines):
            code = re.sub(r"//.*", "", lines[n])
            depth += code.count("{") - code.count("}")
            opened = opened or "{" in code
            n += 1
            if depth == 0 and (opened and code.rstrip().endswith(("}", "};")) or not opened and code.rstrip().endswith(";")):
                break
        head = re.sub(r"__launch_bounds__\(\w+\)|\[\[.*?\]\]|template <.*?>\n|//.*", "", "\n".join(lines[start:n]))
        name = re.match(r"(?:struct|class) (?:alignas\(\d+\) )?(\w+)", head) or re.search(r"(\w+)\s*(?:\(|\{|=)", head)
        while start > 0 and lines[start - 1].startswith("//"):
            start -= 1
        if name:
            found[name[1]] = found.get(name[1], "") + "\n".join(lines[start:n]) + "\n"
    return found


def entries(text):
    """[(name of a rung, why, what it names)] of the first ladder in a file."""
    for name, entry in re.findall(r"^const Rung (k\w+) = (\{.*?\});$", text, re.M | re.S):
        text = re.sub(rf"\b{name}\b", lambda _, entry=entry: entry, text.replace(f"const Rung {name} = {entry};", ""))
    text = re.split(r"\n\}\);\n", text[max(text.find("rungs = {"), 0):])[0]
    found = re.findall(r'\{"([a-z0-9-]+)",\s*((?:"[^"]*"\s*)+),(.*?)(?=\{"[a-z0-9-]+",|\Z)', text, re.S)
    return [(name, "".join(re.findall(r'"([^"]*)"', why)), what) for name, why, what in found]


def rungs(path):
    """[(name, why, source)] of a file that holds a ladder."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    known, result = functions(text), []
    shared = re.sub(r"(_cpu)?\.c(pp|u)$", ".cpp", path)  # has the names where both devices have the same rungs
    if not (named := entries(text)) and os.path.exists(shared):
        with open(shared, encoding="utf-8") as file:
            named = entries(file.read())
    for name, why, what in named:
        order, todo = [], [word for word in re.findall(r"\w+", what) if word in known]
        while todo:
            word = todo.pop(0)
            if word not in order:
                order.append(word)
                todo += [w for w in re.findall(r"\w+", re.sub(r"//.*", "", known[word])) if w in known and w not in order]
        if order:  # else it lies in another file
            result.append((name, why, "\n".join(text for word, text in known.items() if word in order)))
    return result


def differences(path):
    """[(name, why, text, whether it is a difference)]: the first rung whole, the others beside the one before."""
    result, before = [], None
    for name, why, source in rungs(path):
        if before is None:
            result.append((name, why, source, False))
        else:
            lines = list(difflib.unified_diff(before.split("\n"), source.split("\n"), lineterm="", n=2))[2:]
            result.append((name, why, "\n".join(lines), True))
        before = source
    return result


def files(name, device=None):
    found = [(d, os.path.join(HERE, name + end)) for d, end in (("cpu", "_cpu.cpp"), ("cuda", ".cu")) if device in (None, d)]
    return [(d, path) for d, path in found if os.path.exists(path)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    options = parser.parse_args()
    found = files(options.name, options.device)
    if not found:
        print(f"there is no ladder {options.name}; ./ct ladder --help lists them", file=sys.stderr)
        return 1
    for device, path in found:
        for n, (name, why, text, _) in enumerate(differences(path), 1):
            print(f"--- {options.name} on {device}, rung {n}, {name}: {why}\n{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
