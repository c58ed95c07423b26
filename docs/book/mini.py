"""mini.h: a small library that the reader writes along the book, a piece a chapter (docs/book/mini).

A piece of docs/book/mini/pieces has gaps; its solution is in solutions/, its judge in judges/. The judge's program includes mini.h, which is
put together here: that one piece is the reader's, those that it rests on are the solutions'. Its comments have "hint: ..." lines, and
"wrong: THIS ==> THAT" lines: changes of the solution that it must refuse.
"""
import contextlib
import glob
import io
import os
import re
import subprocess

from builder import BOOK, ROOT, Wrong, read, write

MINI = os.path.join(BOOK, "mini")
HEADERS = ("algorithm", "cmath", "cstddef", "functional", "memory", "set", "stdexcept", "string", "type_traits", "utility", "vector")
HEAD = """
// mini.h, put together by ./ct book build.

namespace mini {

using Real = %s;
using Size = std::size_t;

/// Ends a function that is not written yet.
[[noreturn]] inline void gap(const std::string& what) { throw std::runtime_error("a gap: " + what); }

}  // namespace mini

"""


def pieces():
    """Names in the order in which the pieces rest on each other: the products of chapter 8 are used from chapter 6 on, and all by the
    training; the fused layer is an op like those of chapter 6."""
    found = [os.path.basename(path)[:-2] for path in glob.glob(os.path.join(MINI, "solutions", "*.h"))]
    place = {"08": "05z", "11c": "06z"}
    return sorted(found, key=lambda name: place.get(name.split("_")[0], name))


def piece(name, folder="solutions"):
    return read(os.path.join(MINI, folder, name + ".h"))


def judge_of(name):
    return os.path.join(MINI, "judges", name + ".cpp")


def lines_of(name, kind):
    return re.findall(rf"^// {kind}: (.*)$", read(judge_of(name)), re.M)


def assemble(builder, target, texts, real):
    """Writes mini.h, of these pieces, into a folder of that name, which it returns."""
    folder = os.path.join(builder.work, "mini", target)
    os.makedirs(folder, exist_ok=True)
    includes = "".join(f"#include <{header}>\n" for header in HEADERS)
    write(os.path.join(folder, "mini.h"), "#pragma once\n\n" + includes + HEAD % real + "\n".join(texts))
    return folder


def with_piece(builder, target, name, text):
    """mini.h for the judge of a piece, in f64: the piece as it is here, and the solutions of those before it."""
    before = pieces()[:pieces().index(name)]
    return assemble(builder, target, [*map(piece, before), text], "double")


def judge(builder, name, hints=0, text=None):
    """Runs the judge on the reader's piece, or on that text in its place, with checks of indices, memory and undefined behaviour."""
    file = os.path.join(MINI, "pieces", name + ".h")
    folder = with_piece(builder, "yours_" + name, name, f'#line 1 "{file}"\n{text or read(file)}')
    program = builder.program(judge_of(name), "-I" + folder, "-g", "-D_GLIBCXX_ASSERTIONS", "-fsanitize=address,undefined")
    status = builder.run_judge(program, file)
    known = lines_of(name, "hint")
    for hint in known[:hints]:
        print("hint:", hint)
    if status:
        print(f"the piece: docs/book/mini/pieces/{name}.h" + (f"; {len(known)} hints: --hint 1" if hints < len(known) else ""))
    else:
        print(f"right; compare: docs/book/mini/solutions/{name}.h; the whole: ./ct book build")
    return 1 if status else 0


def verdicts(builder, parts):
    """{part: whether its judge takes it, and its last line} for (name, text) of each: in one program where that compiles."""
    folders = {part: with_piece(builder, part, *of) for part, of in parts.items()}
    files = {part: [os.path.join(folder, "mini.h"), judge_of(parts[part][0])] for part, folder in folders.items()}
    try:
        program = builder.program(builder.all_in_one(files, "pieces.cpp"), "-D_GLIBCXX_ASSERTIONS")
    except Wrong as error:
        if len(parts) == 1:
            return {part: (False, "does not compile: " + next(iter(re.findall(r"error: (.*)", str(error))), "")) for part in parts}
        return {part: found for one in parts for part, found in verdicts(builder, {one: parts[one]}).items()}
    found = {}
    for part in parts:
        try:
            done = builder.run(program, part, capture_output=True, timeout=60)
            found[part] = done.returncode == 0, (done.stderr.strip() or f"ended by signal {-done.returncode}").split("\n")[-1]
        except subprocess.TimeoutExpired:
            found[part] = False, "has not ended within a minute"
    return found


def train(builder, texts, steps, folder, **options):
    mnist = [os.path.join(ROOT, "examples", "mnist", name) for name in ("images.cpp", "drawn_digits.cpp")]
    mini = assemble(builder, "train", texts, "float")
    flags = ["-O3", "-march=native", "-ffp-contract=fast"]
    program = builder.program(os.path.join(MINI, "train.cpp"), "-I" + mini, *flags, *mnist)
    return os.path.join(mini, "mini.h"), builder.run(program, str(steps), *([folder] if folder else []), **options).returncode


def build(builder, steps, folder):
    """Judges all pieces, puts mini.h together of those that are right and the solutions of the others, and trains with it."""
    found = verdicts(builder, {"piece_" + name: (name, piece(name, "pieces")) for name in pieces()})
    right = {name: found["piece_" + name][0] for name in pieces()}
    for name in sorted(right):
        print(f"{name:12} " + ("yours" if right[name] else f"the solution's ({found['piece_' + name][1]})"))
    path, status = train(builder, [piece(name, "pieces" if right[name] else "solutions") for name in pieces()], steps, folder)
    print(f"mini.h: {os.path.relpath(path, ROOT)}, {len(read(path).splitlines())} lines, {sum(right.values())} of {len(right)} pieces yours")
    return status


def check(builder):
    """Checks that each judge takes the solution and refuses the piece with gaps and at least two wrong solutions, and that the
    solutions train. Returns how many judges and wrong answers there are."""
    parts = {}
    for name in pieces():
        parts[f"gaps_{name}"], parts[f"solution_{name}"] = (name, piece(name, "pieces")), (name, piece(name))
        changes = [line.replace("\\n", "\n").split(" ==> ") for line in lines_of(name, "wrong")]
        for n, (old, new) in enumerate(changes):
            if piece(name).count(old) != 1:
                raise Wrong(f"docs/book/mini: \"{old}\" stands {piece(name).count(old)} times in {name}.h, not once")
            parts[f"wrong{n}_{name}"] = name, piece(name).replace(old, new)
        if len(changes) < 2 or not lines_of(name, "hint"):
            raise Wrong(f"docs/book/mini/judges/{name}.cpp has {len(changes)} wrong answers; two, and a hint, are wanted")
    for part, (taken, why) in verdicts(builder, parts).items():
        if taken != part.startswith("solution"):
            raise Wrong(f"docs/book/mini: the judge of {part} {'takes it' if taken else 'refuses it: ' + why}")
        if part.startswith("gaps") and "a gap:" not in why:
            raise Wrong(f"docs/book/mini: {part} is refused for something else than its gap: {why}")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        judge(builder, "02_tape", text=piece("02_tape").replace("into()[0] += 1", "into()[1] += 1"))
    if "in docs/book/mini/pieces/02_tape.h:" not in said.getvalue():
        raise Wrong(f"docs/book/mini: a wrong index is told without its line: {said.getvalue()}")
    path, status = train(builder, map(piece, pieces()), 40, "", capture_output=True)
    if status:
        raise Wrong("docs/book/mini: the training with the solutions fails")
    return len(pieces()), len(parts) - 2 * len(pieces())
