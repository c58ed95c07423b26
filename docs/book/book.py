#!/usr/bin/env python3
"""The book: runs its chapters, judges its exercises, and keeps its text in step with the tree.

  book.py run N         a chapter's program, and on a GPU its second one; its figures go to BUILD/book/figures
  book.py exercise N    whether your answer to a chapter's exercise is right (docs/book/exercises)
  book.py build [N]     mini.h (docs/book/mini): judges chapter N's piece of yours; without N puts all together and trains with it
  book.py check         everything below; --write brings excerpts, outputs and figures up to date instead
      --part text | answers: chapters, solutions and words alone, or wrong answers, mini.h and whether code for a GPU compiles
      --build DIR --compiler C++: where the library was built, and by what

What stands in a chapter's text before a block:
  <!-- include FILE -->                the block is that file, or from it what begins with the line that holds TEXT
  <!-- include FILE: TEXT -->          (and the comment above it) and goes on until its brackets are closed, or until
  <!-- include FILE: TEXT .. LAST -->  those of what begins with LAST are (of Python: while it is indented deeper)
  <!-- output NAME -->                 the block is what the chapter's program prints below the line "--- NAME"
  <!-- recorded NAME -->               the same, but as one machine printed it: times, say, which are not compared
  <!-- recorded-gpu NAME -->           what the chapter's second program, code/NAME.cu, printed on a GPU
A program for a GPU is compiled where there is nvcc, and runs where there is a GPU too; its sections and figures come
into the text by "check --record-gpu" alone, and the first, "machine", says where and when that was.
There is no other C++ or Python in the book. Of a chapter the check wants: an excerpt, an output, a figure that its program draws,
and an exercise, whose judge refuses the stub, takes the solution, and refuses it after each of its "wrong: THIS ==> THAT" lines. A
word in bold is being defined: it occurs nowhere before, once in bold, docs/glossary.md has it, and a word of docs/glossary.md is in
bold where it first occurs, but for those that say here what they say everywhere (EVERYDAY). The usual word for ours stands in
brackets, in italics, and in docs/glossary.md.
Numbers are compared to three digits. docs/book/appendix.md is written of all that (appendix.py).
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys

import appendix
import mini
from builder import BOOK, ROOT, Builder, Wrong, read, write

# Words of the glossary that the book uses as everyone does.
EVERYDAY = set("chunk draw edge fold formula map master needs packed peer plan pool records reference row rule sample "
               "seat tile turn twin vector version walk".split())
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")


class Chapter:
    def __init__(self, path):
        self.path, self.name = path, os.path.basename(path)[:-3]
        self.number = self.name.split("-")[0]  # "09", "11b"
        self.text = read(path)
        self.source = os.path.join(BOOK, "code", self.name.replace("-", "_") + ".cpp")
        self.gpu_source = self.source[:-3] + "cu"  # not every chapter has one
        self.exercise = os.path.join(BOOK, "exercises", self.name.replace("-", "_") + ".cpp")
        self.answer = self.name.replace("-", "_") + ".h"  # in exercises/ and in solutions/

    def wrong_answers(self):
        """Solutions with a line "// wrong: THIS ==> THAT" of the judge applied, as texts."""
        solution, out = read(os.path.join(BOOK, "solutions", self.answer)), []
        for line in re.findall(r"^// wrong: (.*)$", read(self.exercise), re.M):
            old, new = line.replace("\\n", "\n").split(" ==>")
            if solution.count(old) != 1:
                raise Wrong(f"{os.path.basename(self.exercise)}: \"{old}\" stands {solution.count(old)} times in the solution, not once")
            out.append(solution.replace(old, new.removeprefix(" ")))
        return out

    def gpu_names(self, function):
        """Names that the program for a GPU hands to book::section() or book::figure(), read from its source: known where it can't run."""
        return re.findall(rf'book::{function}\("([\w-]+)"', read(self.gpu_source)) if self.has_gpu_program() else []

    def has_gpu_program(self):
        return os.path.exists(self.gpu_source)


def chapters():
    return [Chapter(path) for path in sorted(glob.glob(os.path.join(BOOK, "[0-9][0-9]*-*.md")))]


def one_chapter(number):
    for chapter in chapters():
        if chapter.number.lstrip("0") == number.lstrip("0"):
            return chapter
    raise Wrong(f"there is no chapter {number}; there are {', '.join(short(c) for c in chapters())}")


def short(chapter):
    """The chapter's number as one says it: "9", "11b"."""
    return chapter.number.lstrip("0") or "0"


def all_programs(builder, book):
    """Every chapter's program and every exercise, with the stub and with the solution."""
    parts = {}
    for c in book:
        parts[f"chapter_{c.number}"] = [c.source]
        for folder in ("exercises", "solutions"):
            parts[f"{folder}_{c.number}"] = [os.path.join(BOOK, folder, c.answer), c.exercise]
    return builder.program(builder.all_in_one(parts, "all.cpp"), "-Werror")


def wrong_programs(builder, book):
    """Every exercise with its wrong answers."""
    parts = {}
    for c in book:
        for n, text in enumerate(c.wrong_answers()):
            folder = os.path.join(builder.work, "wrong", str(n))
            os.makedirs(folder, exist_ok=True)
            write(os.path.join(folder, c.answer), text)
            parts[f"wrong{n}_{c.number}"] = [os.path.join(folder, c.answer), c.exercise]
    return builder.program(builder.all_in_one(parts, "answers.cpp"), "-Werror")


# --- excerpts -----------------------------------------------------------------------------------------------
def end_of(lines, first, what):
    """The line on which the brackets that open at `first` or after it are closed."""
    depth, opened = 0, False
    for n in range(first, len(lines)):
        code = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'|//.*', "", lines[n])
        depth += sum(map(code.count, "({[")) - sum(map(code.count, ")}]"))
        opened = opened or "{" in code
        if depth == 0 and (code.rstrip().endswith((";", "}")) and (opened or ";" in code)):
            return n
    raise Wrong(f"{what}: its brackets are not closed")


def end_of_python(lines, first):
    """The last line of what begins at `first` and is indented deeper."""
    indent, end = len(lines[first]) - len(lines[first].lstrip()), first
    for n in range(first + 1, len(lines)):
        if lines[n].strip() and len(lines[n]) - len(lines[n].lstrip()) <= indent:
            break
        end = n if lines[n].strip() else end
    return end


def region(file, first, last):
    """The lines of a file, and the first and the one after the last of those that a mark names."""
    path = os.path.join(ROOT, file)
    if not os.path.exists(path):
        raise Wrong(f"{file} does not exist")
    lines = read(path).rstrip("\n").split("\n")
    if not first:
        return lines, 0, len(lines)

    def line_of(words):
        found = [n for n, line in enumerate(lines) if words in line]
        if len(found) != 1:
            raise Wrong(f"{file}: \"{words}\" stands on {len(found)} lines, not on one")
        return found[0]

    start = line_of(first)
    at = line_of(last) if last else start
    end = end_of_python(lines, at) if file.endswith(".py") else end_of(lines, at, f"{file}: {last or first}")
    while start > 0 and lines[start - 1].lstrip().startswith("//"):
        start -= 1
    return lines, start, end + 1


def region_of(mark):
    """(file, lines, first, end) of what stands in an include mark."""
    file, _, places = mark.partition(": ")
    first, _, last = places.partition(" .. ")
    return (file, *region(file, first, last))


def excerpt(mark):
    _, lines, start, end = region_of(mark)
    chosen = lines[start:end]
    indent = min(len(line) - len(line.lstrip()) for line in chosen if line.strip())
    return "\n".join(line[indent:] for line in chosen)


# --- the check ----------------------------------------------------------------------------------------------
BLOCK = re.compile(r"(?P<marks>(?:^<!-- [^\n]* -->\n)?)^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.M | re.S)


def same(want, have, slack):
    """Whether two texts have the same words, numbers within `slack` of each other."""
    if NUMBER.sub("#", want).split() != NUMBER.sub("#", have).split():
        return False
    pairs = zip(map(float, NUMBER.findall(want)), map(float, NUMBER.findall(have)))
    return all(abs(a - b) <= slack + 1e-3 * abs(a) for a, b in pairs)


def outputs(text):
    """{name: what was printed below the line "--- name"}"""
    parts = re.split(r"^--- (.*)\n", text, flags=re.M)
    return {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2])}


def new_text(chapter, printed, gpu_printed, options):
    """The chapter with its blocks as they ought to be, and which sections of the output stand in it; `gpu_printed` is
    what its second program printed if it ran, and that is to be recorded."""
    shown, shown_gpu = set(), []

    def block(match):
        mark = re.match(r"<!-- (include|output|recorded|recorded-gpu) (.*) -->", match["marks"])
        language, body = match["language"], match["body"]
        if language == "cpp" and not (mark and mark[1] == "include"):
            raise Wrong(f"a block of C++ is not an excerpt of the tree:\n{body[:200]}")
        if language == "python" and not (mark and mark[1] == "include"):
            raise Wrong(f"a block of Python is not an excerpt of the tree:\n{body[:200]}")
        if language == "text" and not (mark and mark[1] != "include"):
            raise Wrong(f"a block of text is not the program's output:\n{body[:200]}")
        if not mark:
            return match[0]
        if mark[1] == "include":
            code = "python" if mark[2].partition(": ")[0].endswith(".py") else "cpp"
            return f"{match['marks']}```{code}\n{excerpt(mark[2])}\n```"
        if mark[1] == "recorded-gpu":
            shown_gpu.append(mark[2])
            return f"{match['marks']}```text\n{gpu_printed.get(mark[2], '')}\n```" if gpu_printed else match[0]
        shown.add(mark[2])
        if mark[2] not in printed:
            raise Wrong(f"the program prints no section \"{mark[2]}\"")
        keep = not options.record if mark[1] == "recorded" else same(body, printed[mark[2]], 1e-9)
        return match[0] if keep else f"{match['marks']}```text\n{printed[mark[2]]}\n```"

    text = BLOCK.sub(block, chapter.text)
    if missing := set(printed) - shown:
        raise Wrong(f"what the program prints below {sorted(missing)} stands nowhere in the text")
    sections = chapter.gpu_names("section")
    if sorted(sections) != sorted(shown_gpu) or sections and shown_gpu[0] != "machine":
        raise Wrong(f"the program for a GPU prints {sections}, the text has {shown_gpu}; each once, \"machine\" first")
    return text


def check_recorded(text):
    """Checks that a GPU's output is recorded, with its machine, CUDA version and day."""
    for match in BLOCK.finditer(text):
        mark = re.match(r"<!-- recorded-gpu (.*) -->", match["marks"])
        if mark and not match["body"].strip():
            raise Wrong(f"\"{mark[1]}\" was never recorded: book.py check --record-gpu, where a GPU is")
        if mark and mark[1] == "machine" and not re.search(r", CUDA \d+\.\d+, \d{4}-\d\d-\d\d$|^not measured yet: ", match["body"].strip()):
            raise Wrong("the section \"machine\" does not name GPU, CUDA version and date (docs/book/code/gpu.h)")


def first_difference(old, new):
    for n, (a, b) in enumerate(zip(old.split("\n"), new.split("\n")), 1):
        if a != b:
            return f"line {n} reads\n    {a}\n  and ought to read\n    {b}"
    return "it is shorter or longer than it ought to be"


def run_gpu_program(chapter, builder, program):
    done = builder.run(program, f"gpu_{chapter.number}", capture_output=True, figures="figures-gpu")
    if done.returncode:
        raise Wrong(f"its program for a GPU fails:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    printed = outputs(done.stdout)
    if sorted(printed) != sorted(chapter.gpu_names("section")):
        raise Wrong(f"its program for a GPU prints {sorted(printed)}, not what its book::section() lines name")
    return printed


def check_chapter(chapter, builder, program, gpu_program, options):
    done = builder.run(program, f"chapter_{chapter.number}", capture_output=True)
    if done.returncode:
        raise Wrong(f"its program fails:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    printed = outputs(done.stdout)
    gpu_printed = run_gpu_program(chapter, builder, gpu_program) if gpu_program and chapter.has_gpu_program() else None
    text = new_text(chapter, printed, gpu_printed if options.record_gpu else None, options)
    if text != chapter.text:
        if not options.write:
            raise Wrong(first_difference(chapter.text, text) + "\n  (docs/book/book.py check --write writes it)")
        write(chapter.path, text)
    drawn_on_gpu = [name + ".svg" for name in chapter.gpu_names("figure")]
    if gpu_printed and options.record_gpu:
        for name in drawn_on_gpu:
            shutil.copy(os.path.join(builder.work, "figures-gpu", name), os.path.join(BOOK, "figures", name))
    drawn = sorted(glob.glob(os.path.join(builder.work, "figures", chapter.number + "-*.svg")))
    for path in drawn:
        name = os.path.basename(path)
        kept = os.path.join(BOOK, "figures", name)
        if f"](figures/{name})" not in text:
            raise Wrong(f"its program draws {name}, which the text does not show")
        if os.path.exists(kept) and same(read(kept), read(path), 0.5):
            continue
        if not options.write:
            raise Wrong(f"figures/{name} is not what the program draws (check --write writes it)")
        shutil.copy(path, kept)
    wanted = {"an excerpt": "<!-- include ", "an output": "<!-- output ", "a figure": "](figures/",
              "an exercise": "## Exercise"}
    if lacks := [what for what, sign in wanted.items() if sign not in text]:
        raise Wrong("it lacks " + ", ".join(lacks))
    drawn = {os.path.basename(path) for path in drawn} | set(drawn_on_gpu)
    if missing := set(re.findall(r"\]\(figures/([^)]+)\)", text)) - drawn:
        raise Wrong(f"its program does not draw {sorted(missing)}")
    check_recorded(text)


def check_exercise(chapter, builder, program):
    judge_parts(chapter, builder, program, [("exercises", 1, "takes the stub for an answer, or fails otherwise"),
                                            ("solutions", 0, "refuses the solution")])


def check_wrong_answers(chapter, builder, program):
    wrong = chapter.wrong_answers()
    if len(wrong) < 2:
        raise Wrong(f"its judge has {len(wrong)} \"wrong: THIS ==> THAT\" lines; two are wanted")
    judge_parts(chapter, builder, program, [(f"wrong{n}", 1, f"takes wrong answer {n + 1}, or fails otherwise") for n in range(len(wrong))])


def judge_parts(chapter, builder, program, wanted):
    for part, status, says in wanted:
        done = builder.run(program, f"{part}_{chapter.number}", capture_output=True)
        if done.returncode != status:
            raise Wrong(f"its exercise {says}:\n{done.stdout}{done.stderr}")


def check_terms(book):
    """Each term is defined where it first stands, and in the glossary."""
    page = read(os.path.join(ROOT, "docs", "glossary.md"))
    listed = {word.strip().strip("`").lower() for row in re.findall(r"^\| (.+?) \|", page, re.M) for word in re.split("[,;:(]", row)}
    words = re.split(r"^## Words of processors", page, flags=re.M)[0].split("\n## Words\n")[1]
    glossary = {re.split(r"[,:(]", row)[0].replace("`", "").strip().lower()
                for row in re.findall(r"^\| (.+?) \|", words, re.M)}
    glossary -= EVERYDAY | {"our word"} | {term + "s" for term in glossary}
    seen, defined, wrong = {}, {}, []
    prose = []
    for chapter in book:
        text = re.sub(r"```.*?^```$|<!--.*?-->|^#.*?$|^    .*?$|\$\$.*?\$\$|`[^`\n]+`|\$[^$\n]+\$|\[[^\]]*\]\([^)]*\)",
                      lambda m: "\n" * m[0].count("\n"), chapter.text, flags=re.M | re.S)
        prose.append((chapter, text))
        for match in re.finditer(r"\*\*(.+?)\*\*", text, re.S):
            term = " ".join(match[1].lower().split())
            place = f"{chapter.name}.md:{text.count(chr(10), 0, match.start()) + 1}"
            if term in defined:
                wrong.append(f"{place}: {term} has been defined before, in {defined[term]}")
            defined.setdefault(term, place)
            if not {term, term.rstrip("s")} & listed:
                wrong.append(f"{place}: \"{term}\" is not in docs/glossary.md")
        for usual in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", " ".join(re.findall(r"\([^()]*\)", text))):  # what others say
            if " ".join(usual.lower().split()) not in listed:
                wrong.append(f"{chapter.name}.md: \"{usual}\", in brackets, is not in docs/glossary.md")
    for term in sorted(glossary | set(defined)):
        stem = re.escape(term).replace(r"\ ", r"\s+")
        for chapter, text in prose:
            match = re.search(rf"(\*\*)?\b{stem}(?:e?s)?\b", text, re.I)
            if match:
                place = f"{chapter.name}.md:{text.count(chr(10), 0, match.start()) + 1}"
                seen[term] = place
                if not match[1]:
                    wrong.append(f"{place}: \"{term}\" is used before it is defined ({defined.get(term, 'nowhere')}); "
                                 "define it here, in bold")
                break
    if wrong:
        raise Wrong("\n".join(wrong))
    return len(seen)


def check(builder, options):
    book = chapters()
    if options.chapter is not None:
        book = [one_chapter(options.chapter)]
    if options.part != "answers":
        check_text(builder, options, book)
    if options.part != "text":
        check_answers(builder, options, book)


def of_all(book, parts, *rest):
    """Raises what the parts say of all chapters."""
    wrong = []
    for chapter in book:
        for part, *more in parts:
            try:
                part(chapter, *rest, *more)
            except (Wrong, subprocess.TimeoutExpired) as error:
                wrong.append(f"{chapter.name}.md: {error}")
    if wrong:
        raise Wrong("\n".join(wrong))


def check_text(builder, options, book):
    """The chapters' programs and texts, the exercises with stub and solution, the words."""
    if options.chapter is None:
        known = {path for c in book for path in (c.source, c.gpu_source, c.exercise)}
        if stray := [p for end in ("cpp", "cu") for p in glob.glob(os.path.join(BOOK, "[!m]*", "*." + end)) if p not in known]:
            raise Wrong(f"programs of no chapter: {stray}")
    for folder in ("figures", "figures-gpu"):
        shutil.rmtree(os.path.join(builder.work, folder), ignore_errors=True)
        os.makedirs(os.path.join(builder.work, folder))
    program = all_programs(builder, book)
    if options.record_gpu and not builder.gpu:
        raise Wrong(f"--record-gpu: {builder.why_no_gpu()}")
    gpu_program = all_gpu_programs(builder, book) if builder.gpu and builder.nvcc else None
    of_all(book, ((check_chapter, gpu_program, options), (check_exercise,)), builder, program)
    if options.chapter is None:
        appendix.check(chapters(), options)
    terms = check_terms(chapters())
    print(f"{len(book)} chapters run and say what their programs print, {len(book)} exercises refuse the stub and take the "
          f"solution, {terms} words are defined where they first stand")
    if on_gpu := sum(c.has_gpu_program() for c in book):
        print(f"{on_gpu} GPU programs", "ran" if gpu_program else f"not run: {builder.why_no_gpu()}")


def all_gpu_programs(builder, book):
    on_gpu = {f"gpu_{c.number}": [c.gpu_source] for c in book if c.has_gpu_program()}
    return builder.gpu_program(builder.all_in_one(on_gpu, "all.cu")) if on_gpu else None


def check_answers(builder, options, book):
    """The judges with wrong answers, mini.h, and whether the programs for a GPU compile."""
    of_all(book, ((check_wrong_answers,),), builder, wrong_programs(builder, book))
    print(f"{len(book)} exercises refuse {sum(len(c.wrong_answers()) for c in book)} wrong answers")
    if builder.nvcc and not builder.gpu:
        all_gpu_programs(builder, book)
        print("programs for a GPU compile")
    if options.chapter is None:
        judges, answers = mini.check(builder)
        print(f"mini.h: {judges} judges take the solution and refuse gaps and {answers} wrong answers")


def judge(chapter, builder):
    """Runs the judge on the reader's answer, with checks of indices, memory and undefined behaviour, for a minute at most."""
    program = builder.program(chapter.exercise, "-g", "-D_GLIBCXX_ASSERTIONS", "-fsanitize=address,undefined")
    status = builder.run_judge(program, os.path.join(BOOK, "exercises", chapter.answer))
    if status == 0:
        after = [short(c) for c in chapters() if c.number > chapter.number]
        print(f"compare: docs/book/solutions/{chapter.answer}" + (f"; next: ./ct book {after[0]}" if after else ""))
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "exercise", "build", "check"])
    parser.add_argument("chapter", nargs="?", help="its number")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "programs"))
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--hint", type=int, default=0, help="build N: that many hints")
    parser.add_argument("--steps", type=int, default=0, help="build: of training; an epoch without it")
    parser.add_argument("--data", default="", help="build: a folder of MNIST's files, or Fashion-MNIST's")
    parser.add_argument("--part", choices=["text", "answers"],
                        help="check: chapters, solutions and words alone, or wrong answers and mini.h alone")
    parser.add_argument("--write", action="store_true", help="bring the text up to date")
    parser.add_argument("--record", action="store_true",
                        help="what this machine measures takes the place of what is recorded")
    parser.add_argument("--record-gpu", action="store_true", help="the same for what its GPU prints and draws")
    options = parser.parse_args()
    options.write = options.write or options.record or options.record_gpu
    try:
        builder = Builder(os.path.abspath(options.build), options.compiler)
        if options.command == "check":
            return check(builder, options)
        if options.command == "build" and not options.chapter:
            return mini.build(builder, options.steps, options.data)
        chapter = one_chapter(options.chapter or "0")
        if options.command == "build":
            name = next((n for n in mini.pieces() if n.split("_")[0] == chapter.number), None)
            if not name:
                raise Wrong(f"chapter {short(chapter)} has no piece of mini.h; there are {', '.join(sorted(mini.pieces()))}")
            return mini.judge(builder, name, options.hint)
        if options.command == "exercise":
            return judge(chapter, builder)
        status = builder.run(builder.program(chapter.source)).returncode
        if status or not chapter.has_gpu_program():
            return status
        if builder.gpu:
            return builder.run(builder.gpu_program(chapter.gpu_source)).returncode
        print(f"its program for a GPU, {os.path.relpath(chapter.gpu_source, ROOT)}, is not run: {builder.why_no_gpu()}")
        return 0
    except (Wrong, OSError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
