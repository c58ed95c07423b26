#!/usr/bin/env python3
"""The book: runs its chapters, judges its exercises, and keeps its text in step with the tree.

  book.py run N         a chapter's program; its figures go to BUILD/book/figures
  book.py exercise N    whether your answer to a chapter's exercise is right (docs/book/exercises)
  book.py check         everything below; --write brings excerpts, outputs and figures up to date instead
  book.py html          BUILD/book/book.html, by pandoc
      --build DIR --compiler C++: where the library was built, and by what

What stands in a chapter's text before a block:
  <!-- include FILE -->                the block is that file, or from it what begins with the line that holds TEXT
  <!-- include FILE: TEXT -->          (and the comment above it) and goes on until its brackets are closed, or until
  <!-- include FILE: TEXT .. LAST -->  those of what begins with LAST are
  <!-- output NAME -->                 the block is what the chapter's program prints below the line "--- NAME"
  <!-- recorded NAME -->               the same, but as one machine printed it: times, say, which are not compared
There is no other C++ in the book. Of a chapter the check wants: an excerpt, an output, a figure that its program draws,
and an exercise, whose stub its test refuses and whose solution it takes. A word in bold is being defined: it occurs
nowhere before, once in bold, and a word of docs/glossary.md is in bold where it first occurs, but for those that say
here what they say everywhere (EVERYDAY). Numbers are compared to three digits.
"""
import argparse
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys

BOOK = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(BOOK))
# Words of the glossary that the book uses as everyone does.
EVERYDAY = set("chunk draw edge fold formula map master needs packed peer plan pool records reference row rule sample "
               "seat tile turn twin vector version walk".split())
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")


class Wrong(Exception):
    """A sentence for the reader: what is not as it should be."""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Chapter:
    def __init__(self, path):
        self.path, self.name = path, os.path.basename(path)[:-3]
        self.number = self.name[:2]
        self.text = read(path)
        self.source = os.path.join(BOOK, "code", self.name.replace("-", "_") + ".cpp")
        self.exercise = os.path.join(BOOK, "exercises", self.name.replace("-", "_") + ".cpp")
        self.answer = self.name.replace("-", "_") + ".h"  # in exercises/ and in solutions/


def chapters():
    return [Chapter(path) for path in sorted(glob.glob(os.path.join(BOOK, "[0-9][0-9]-*.md")))]


# --- building and running ---------------------------------------------------------------------------------
class Builder:
    """Compiles programs of one file against the library of a build tree."""

    def __init__(self, build, compiler):
        self.build, self.work = build, os.path.join(build, "book")
        folders = (os.path.join(build, "include"), ROOT, os.path.join(BOOK, "code"), os.path.join(BOOK, "exercises"))
        # Contracted to FMA where a machine has it, the same program would round differently from machine to machine.
        self.compiler = [*shlex.split(compiler), "-std=c++20", "-O1", "-Wall", "-Wextra", "-ffp-contract=off",
                         *("-I" + folder for folder in folders)]
        package = os.path.join(build, "cotangent.pc")
        if not os.path.exists(package):
            raise Wrong(f"{package} is not there: build the library first (./ct book does)")
        libraries = re.search(r"^Libs: .* -lcotangent (.*)$", read(package), re.M)
        self.libraries = [os.path.join(build, f"lib{name}.a") for name in ("cotangent_testing", "cotangent")]
        self.libraries += shlex.split(libraries.group(1)) if libraries else []
        os.makedirs(os.path.join(self.work, "figures"), exist_ok=True)

    def run_compiler(self, command, what):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Wrong(f"{what} does not compile:\n{done.stderr[-4000:]}")
        sys.stderr.write(done.stderr)  # warnings

    def program(self, source, *flags):
        target = os.path.join(self.work, os.path.splitext(os.path.basename(source))[0])
        self.run_compiler([*self.compiler, *flags, source, *self.libraries, "-o", target],
                          os.path.relpath(source, ROOT))
        return target

    def all_in_one(self, book):
        """Every chapter's program and every exercise, with the stub and with the solution, as one program: its headers
        are parsed once, which is most of the time. What a file includes goes to the top, and the rest into a namespace;
        the argument chooses one of them."""
        includes, parts, names = set(), [], []
        answers = {os.path.basename(c.answer) for c in book}

        def add(name, *files):
            names.append(name)
            parts.append(f"namespace {name} {{")
            for file in files:
                parts.append(f'#line 1 "{file}"')
                for line in read(file).split("\n"):
                    included = re.match(r"#include <(.*)>", line)
                    if included and included[1] not in answers:
                        includes.add(line)
                    kept = not included and line != "#pragma once"
                    parts.append(line.replace("int main()", "int program()") if kept else "")
            parts.append(f"}}  // namespace {name}")

        for c in book:
            add(f"chapter_{c.number}", c.source)
            for folder in ("exercises", "solutions"):
                add(f"{folder}_{c.number}", os.path.join(BOOK, folder, c.answer), c.exercise)
        choice = "".join(f'  if (argument == "{name}") return {name}::program();\n' for name in names)
        source = os.path.join(self.work, "all.cpp")
        write(source, "\n".join([*sorted(includes), "#include <string_view>", *parts,
                                 "int main(int, char** arguments) {",
                                 "  const std::string_view argument = arguments[1];", choice + "  return 2;\n}\n"]))
        return self.program(source, "-Werror")

    def run(self, program, *arguments, **options):
        environment = {**os.environ, "BOOK_FIGURES": os.path.join(self.work, "figures")}
        return subprocess.run([program, *arguments], env=environment, text=True, timeout=600, **options)


def one_chapter(number):
    for chapter in chapters():
        if int(chapter.number) == number:
            return chapter
    raise Wrong(f"there is no chapter {number}; there are 0 to {len(chapters()) - 1}")


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


def excerpt(file, first, last):
    path = os.path.join(ROOT, file)
    if not os.path.exists(path):
        raise Wrong(f"{file} does not exist")
    text = read(path)
    if not first:
        return text.rstrip("\n")
    lines = text.split("\n")

    def line_of(words):
        found = [n for n, line in enumerate(lines) if words in line]
        if len(found) != 1:
            raise Wrong(f"{file}: \"{words}\" stands on {len(found)} lines, not on one")
        return found[0]

    start = line_of(first)
    end = end_of(lines, line_of(last) if last else start, f"{file}: {last or first}")
    while start > 0 and lines[start - 1].lstrip().startswith("//"):
        start -= 1
    chosen = lines[start:end + 1]
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


def new_text(chapter, printed, record):
    """The chapter with its blocks as they ought to be, and which sections of the output stand in it."""
    shown = set()

    def block(match):
        mark = re.match(r"<!-- (include|output|recorded) (.*) -->", match["marks"])
        language, body = match["language"], match["body"]
        if language == "cpp" and not (mark and mark[1] == "include"):
            raise Wrong(f"a block of C++ is not an excerpt of the tree:\n{body[:200]}")
        if language == "text" and not (mark and mark[1] != "include"):
            raise Wrong(f"a block of text is not the program's output:\n{body[:200]}")
        if not mark:
            return match[0]
        if mark[1] == "include":
            file, _, places = mark[2].partition(": ")
            first, _, last = places.partition(" .. ")
            return f"{match['marks']}```cpp\n{excerpt(file, first, last)}\n```"
        shown.add(mark[2])
        if mark[2] not in printed:
            raise Wrong(f"the program prints no section \"{mark[2]}\"")
        keep = not record if mark[1] == "recorded" else same(body, printed[mark[2]], 1e-9)
        return match[0] if keep else f"{match['marks']}```text\n{printed[mark[2]]}\n```"

    return BLOCK.sub(block, chapter.text), shown


def first_difference(old, new):
    for n, (a, b) in enumerate(zip(old.split("\n"), new.split("\n")), 1):
        if a != b:
            return f"line {n} reads\n    {a}\n  and ought to read\n    {b}"
    return "it is shorter or longer than it ought to be"


def check_chapter(chapter, builder, program, options):
    done = builder.run(program, f"chapter_{chapter.number}", capture_output=True)
    if done.returncode:
        raise Wrong(f"its program fails:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    printed = outputs(done.stdout)
    text, shown = new_text(chapter, printed, options.record)
    if missing := set(printed) - shown:
        raise Wrong(f"what the program prints below {sorted(missing)} stands nowhere in the text")
    if text != chapter.text:
        if not options.write:
            raise Wrong(first_difference(chapter.text, text) + "\n  (docs/book/book.py check --write writes it)")
        write(chapter.path, text)
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
    if missing := {m for m in re.findall(r"\]\(figures/([^)]+)\)", text)} - {os.path.basename(p) for p in drawn}:
        raise Wrong(f"its program does not draw {sorted(missing)}")


def check_exercise(chapter, builder, program):
    for folder, wanted, says in (("exercises", 1, "takes the stub for an answer, or fails otherwise"),
                                 ("solutions", 0, "refuses the solution")):
        done = builder.run(program, f"{folder}_{chapter.number}", capture_output=True)
        if done.returncode != wanted:
            raise Wrong(f"its exercise {says}:\n{done.stdout}{done.stderr}")


def check_terms(book):
    """Each term is defined where it first stands."""
    words = re.split(r"^## Words of processors", read(os.path.join(ROOT, "docs", "glossary.md")), flags=re.M)[0]
    words = words.split("\n## Words\n")[1]
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
    else:
        known = {c.source for c in book} | {c.exercise for c in book}
        if stray := [p for p in glob.glob(os.path.join(BOOK, "*", "*.cpp")) if p not in known]:
            raise Wrong(f"programs of no chapter: {stray}")
    shutil.rmtree(os.path.join(builder.work, "figures"), ignore_errors=True)
    os.makedirs(os.path.join(builder.work, "figures"))
    program = builder.all_in_one(book)
    wrong = []
    for chapter in book:
        for part, *rest in ((check_chapter, options), (check_exercise,)):
            try:
                part(chapter, builder, program, *rest)
            except (Wrong, subprocess.TimeoutExpired) as error:
                wrong.append(f"{chapter.name}.md: {error}")
    terms = 0
    try:
        terms = check_terms(chapters())
    except Wrong as error:
        wrong.append(str(error))
    if wrong:
        raise Wrong("\n".join(wrong))
    print(f"{len(book)} chapters run and say what their programs print, {len(book)} exercises refuse the stub and take "
          f"the solution, {terms} words are defined where they first stand")


# --- HTML ---------------------------------------------------------------------------------------------------
def html(work):
    if not shutil.which("pandoc"):
        print("skipped: pandoc is not installed (apt-get install -y --no-install-recommends pandoc)")
        return 77
    os.makedirs(work, exist_ok=True)

    def target_of(link):
        """Chapters are on the same page; what else is in the tree is reached from where the page lies."""
        if chapter := re.fullmatch(r"(\d\d)-[\w-]+\.md", link[1]):
            return f"](#chapter-{chapter[1]})"
        return f"]({os.path.relpath(os.path.join(BOOK, link[1]), work)})"

    text = [read(os.path.join(BOOK, "README.md"))]
    text += [re.sub(r"^(# .*)$", rf"\1 {{#chapter-{c.number}}}", c.text, count=1, flags=re.M) for c in chapters()]
    parts = re.split(r"(^```.*?^```$)", "\n\n".join(text), flags=re.M | re.S)  # every second one is code
    parts[::2] = [re.sub(r"\]\((?!#|\w+:|figures/)([^)]+)\)", target_of, part) for part in parts[::2]]
    source, page = os.path.join(work, "book.md"), os.path.join(work, "book.html")
    write(source, "".join(parts))
    subprocess.run(["pandoc", "--from", "markdown-auto_identifiers-yaml_metadata_block-superscript-subscript",
                    "--to", "html5", "--standalone", "--self-contained", "--mathml", "--toc", "--toc-depth", "1",
                    "--metadata", "title=A book that runs", "--resource-path", BOOK, source, "-o", page], check=True)
    print(page)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "exercise", "check", "html"])
    parser.add_argument("chapter", nargs="?", type=int, help="its number")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "programs"))
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--write", action="store_true", help="bring the text up to date")
    parser.add_argument("--record", action="store_true",
                        help="what this machine measures takes the place of what is recorded")
    options = parser.parse_args()
    options.write = options.write or options.record
    try:
        if options.command == "html":
            return html(os.path.join(os.path.abspath(options.build), "book"))
        builder = Builder(os.path.abspath(options.build), options.compiler)
        if options.command == "check":
            return check(builder, options)
        chapter = one_chapter(options.chapter or 0)
        return builder.run(builder.program(chapter.source if options.command == "run" else chapter.exercise)).returncode
    except (Wrong, OSError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
