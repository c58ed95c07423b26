#!/usr/bin/env python3
"""The site: the book, ladders, ops, headers and the Python package as pages, by MkDocs.

   usage: site.py build OUT     pages of the tree into OUT/html, which needs no server
          site.py check OUT     the same, and red where a link, a formula or a word is missing, a page wants another host, or an
                                interactive part does not print what its chapter's program does
"""
import collections
import glob
import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "docs", "book")]
lacks = [name for name in ("mkdocs", "latex2mathml") if not importlib.util.find_spec(name)] + ["doxygen"] * (not shutil.which("doxygen"))
if lacks:
    print(f"skipped: {', '.join(lacks)} not installed (./ct site brings it)")
    sys.exit(77)
import api  # noqa: E402
import book  # noqa: E402
import notation  # noqa: E402

PRIVATE = re.compile(r"_(kernels|cpu|cuda|internal|plain|hopper)[_.]|^ops/engine/.*\.cuh$")
LANGUAGES = {"cu": "cuda", "cuh": "cuda", "py": "python", "sh": "bash", "h": "cpp", "cpp": "cpp", "inc": "cpp", "cmake": "cmake"}


def read(path):
    return book.read(os.path.join(ROOT, path))


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def rows_of(text):
    """Cells of the rows of tables of Markdown."""
    rows = re.findall(r"^\|(?!-|\s*\|?---)(.*)\|$", text.replace("\\|", "\x00"), re.M)
    return [[cell.strip().replace("\x00", "|") for cell in row.split("|")] for row in rows]


class Site:
    def __init__(self, out):
        self.out, self.pages = out, os.path.join(out, "pages")
        files = git("ls-files", "-co", "--exclude-standard").split("\n")
        self.files = [f for f in files if os.path.exists(os.path.join(ROOT, f))]
        self.commit = git("rev-parse", "--short", "HEAD")
        self.texts = [f for f in self.files if f.endswith(".md") and not f.startswith(("tests/", ".", "docs/site/"))]
        self.headers = [f for f in self.files if re.match(r"(core|autograd|ops|nn)/.*\.(h|cuh)$", f) and not PRIVATE.search(f)]
        self.sources, self.wrong = set(), []

    def write(self, name, text):
        path = os.path.join(self.pages, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Search shows what explains before what declares.
        boost = 4 if name.startswith(("docs/book/", "docs/glossary", "bench/")) else 0.5 if name.endswith("h.md") else 1
        book.write(path, text if text.startswith("---") else f"---\nsearch:\n  boost: {boost}\n---\n{text}")

    def copy(self, path, name):
        os.makedirs(os.path.dirname(os.path.join(self.pages, name)), exist_ok=True)
        shutil.copy(os.path.join(ROOT, path), os.path.join(self.pages, name))

    # --- links ---
    def to(self, path, page, line=None):
        """The way from a page to that of a file of the tree, or to a line of the file's text."""
        name = {"README.md": "about.md"}.get(path, path if path in self.texts else path + ".md")
        if line or path not in self.texts and path not in self.headers:
            self.sources.add(path)
            name = f"source/{path}.md"
        return os.path.relpath(name, os.path.dirname(page)) + (f"#__codelineno-0-{line}" if line else "")

    def link(self, match, page):
        path = os.path.normpath(os.path.join(os.path.dirname(page), match[2]))
        if os.path.isdir(os.path.join(ROOT, path)):  # its README.md, or its first file
            path = next((f for f in [path + "/README.md", *self.files] if f in self.files and f.startswith(path + "/")), path)
        if path not in self.files:
            self.wrong.append(f"{page}: {match[2]} does not exist")
        elif path.endswith((".png", ".jpg", ".svg")):
            self.copy(path, path)
        else:
            return f"{match[1]}({self.to(path, page)}{match[3] or ''})"
        return match[0]

    def picture(self, match, page):
        """A drawing inside of the page, where it takes the page's colours (site.css)."""
        drawing = re.sub(r"\n\s*", "", read(os.path.normpath(os.path.join(os.path.dirname(page), match[2]))).strip())
        return f"<figure>{drawing.replace('<svg ', f'<svg role=img aria-label={chr(39)}{html.escape(match[1])}{chr(39)} ', 1)}</figure>"

    def excerpt(self, match, page):
        file, _, first, end = book.region_of(match[1])
        return f'<div class="from" markdown="span">[{file}:{first + 1}-{end}]({self.to(file, page, first + 1)}) at {self.commit}</div>\n\n'

    def markup(self, text, page):
        """A page with its formulas, drawings, excerpts and links as the site has them."""
        text = re.sub(r"^<!-- part (\w+) -->$", r'<div class="part" data-part="\1"></div>', text, flags=re.M)
        parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
        for n in range(0, len(parts), 2):
            part = re.sub(r"!\[([^\]]*)\]\(([^)\s]+\.svg)\)", lambda m: self.picture(m, page), parts[n])
            part = re.sub(r"(\])\((?!#|\w+:)([^)#\s]+)(#[^)\s]*)?\)", lambda m: self.link(m, page), part)
            part = re.sub(r"^(?![-*|>#\s]|\d+\. )(.+)\n(?=[-*] |1\. )", r"\1\n\n", part, flags=re.M)  # a list interrupts a paragraph
            parts[n] = re.sub(r"^<!-- include (.*) -->\n", lambda m: self.excerpt(m, page), part, flags=re.M)
        return notation.translate("".join(parts))

    # --- chapters ---
    def chapter(self, chapter, needs, others, usual):
        page, prose = f"docs/book/{chapter.name}.md", re.sub(r"```.*?```", "", chapter.text, flags=re.S)
        minutes = round(len(prose.split()) / 200 + (chapter.text.count("\n") - prose.count("\n")) / 100)  # words, lines of code
        bold = {" ".join(word.lower().split()) for word in re.findall(r"\*\*(.+?)\*\*", prose, re.S)}
        words = {key: others[key] for word in sorted(bold) for key in (word, word.removesuffix("s")) if key in others}
        words |= {ours: theirs for theirs, ours, where in usual if re.match(r"\[?(\d+[a-z]?)", where)[1] == book.short(chapter)}
        links = ", ".join(f"[{n}]({book.one_chapter(n).name}.md)" for n in needs)
        if any(book.one_chapter(n).number >= chapter.number for n in needs):
            self.wrong.append(f"{chapter.name} needs a later chapter (docs/book/README.md)")
        title, _, rest = chapter.text.partition("\n")
        facts = f"{minutes} minutes." + (f" Needs chapters: {links}." if links else "") + "\n{ .facts }\n"
        if words:
            facts += "\n??? note \"What others call it\"\n\n" + "".join(f"    - {ours}: {theirs}\n" for ours, theirs in words.items())
        self.write(page, self.markup(f"{title}\n\n{facts}{rest}", page))

    def other_words(self):
        """({our word: what others say}, rows of others' words with ours and the chapter) of the glossary."""
        parts = {part.partition("\n")[0]: rows_of(part)[1:] for part in read("docs/glossary.md").split("\n## ")}
        return {word.lower(): row[1] for row in parts["Words"] for word in row[0].split(":")[0].replace("`", "").split(", ")}, parts["Others' words"]

    # --- ops ---
    def pytorch(self):
        """{our name: PyTorch's} of docs/pytorch_names.txt."""
        same, other, prefix = {}, {}, ""
        for line in read("docs/pytorch_names.txt").split("\n"):
            theirs, is_code, ours = line.partition(" = ")
            if line.startswith("## "):
                prefix = "torch." + line.split("|")[1].strip().removeprefix("torch.")
            elif is_code and (key := re.match(r"\w+(?=\()", ours)):
                other.setdefault(key[0], prefix + theirs)
            elif not line.startswith("#") and " - " not in line and not is_code:
                same = {name: prefix + name for name in line.split()} | same
        return other | same

    def places(self):
        """({op: (file, line) of its definition and kernels}, {op: its room, where its samples are}) of the folders of ops."""
        found, rooms = collections.defaultdict(dict), {}
        for path in self.files:
            if re.match(r"ops/(?!engine|testing).*\.(cpp|cu|inc)$", path) and not re.search(r"_(test|bench|oracle)\.", path):
                for n, line in enumerate(read(path).split("\n"), 1):
                    for name in re.findall(r'"(\w+)"', line) + re.findall(r"CT_\w+\((?:\w+, )?(\w+)[,)]", line):
                        if "_samples" not in path:
                            found[name].setdefault(path, n)
                        elif f'{{"{name}"' in line:
                            rooms[name] = os.path.dirname(path)
        return found, rooms

    def ops(self, entries):
        """A page for each op of docs/ops.md, which the suite writes of the registry; returns {room: pages}."""
        rooms, functions = collections.defaultdict(list), collections.defaultdict(list)
        for path in entries:
            for entry in entries[path] if path.startswith("ops/") else []:
                functions[entry.name].append((path, entry))
        ladders = {f: read(f) for f in self.texts if f.startswith("bench/ladders/")}
        pytorch, (places, homes) = self.pytorch(), self.places()
        for op, formula, inputs, attributes, *dtypes in rows_of(read("docs/ops.md"))[1:]:
            folders = collections.Counter(os.path.dirname(f) for f in places[op]).most_common(1)
            page, room = f"ops/op/{op}.md", homes.get(op) or (folders[0][0] if folders else "ops")
            files = {f: n for f, n in places[op].items() if f.startswith(room + "/")}
            stems = {os.path.basename(room), *(re.split(r"_table|\.", os.path.basename(f))[0] for f in files)}
            files |= {f: 1 for f in self.files if re.fullmatch(rf"{room}/({'|'.join(stems)})_(plain|cpu|cuda)\.(cpp|cu)", f) and f not in files}
            link = {f: f"[{f}:{n}]({self.to(f, page, n)})" for f, n in files.items()}
            out = [f"# {op}", f'<div class="formula">{notation.cell(formula)}</div>']
            for path, entry in functions[op][:3]:
                out += [f"```cpp\n{entry.code}\n```", entry.text, f"[{path}]({self.to(path, page)}#{entry.name})"]
            texts = [f for f in self.texts if f.startswith("ops/") and os.path.basename(f) == op + ".md"]
            readme = next(f for f in [*texts, *(f"{room}/{stem}.md" for stem in stems), f"{room}/README.md", "ops/README.md"] if f in self.texts)
            heading = re.search(r"^#+ (.*[Gg]radient.*)$", read(readme), re.M)
            place = "#" + re.sub(r"[^\w -]", "", heading[1].lower()).replace(" ", "-") if heading else ""
            out += ["## Gradient", f"Derived in [{readme}]({self.to(readme, page)}{place})."]
            if plain := [link[f] for f in files if "_plain" in f]:
                out.append("The plainest code, forward and back: " + ", ".join(plain) + ".")
            out += ["## Inputs and attributes", f"Inputs: {inputs or 'none'}. Attributes: {attributes or 'none'}.",
                    "| | forward | backward |\n|---|---|---|\n" + "".join(
                        f"| {device} | {there} | {back or 'none'} |\n" for device, there, back in zip(("CPU", "CUDA"), dtypes[::2], dtypes[1::2])),
                    "## Kernels", "\n".join(f"- {one}" for one in link.values()) or "None of its own."]
            if named := [f for f, text in ladders.items() if f.endswith(f"/{op}.md") or f"ct::{op} |" in text or f"ct::{op}`" in text]:
                out += ["## Ladder", ", ".join(f"[{os.path.basename(f)[:-3]}]({self.to(f, page)})" for f in named)]
            if op in pytorch:
                out += ["## In PyTorch", f"`{pytorch[op]}`"]
            self.write(page, notation.translate("\n\n".join(out) + "\n"))
            rooms[room].append({op: page})
        return rooms

    # --- everything ---
    def generate(self):
        """Writes all pages; returns how they are found."""
        shutil.rmtree(self.pages, ignore_errors=True)
        entries = api.headers(ROOT, self.headers, os.path.join(self.out, "doxygen"))
        chapters, others = book.chapters(), self.other_words()
        needs = {row[0]: re.findall(r"\d+[a-z]?", row[3]) for row in rows_of(read("docs/book/README.md"))}
        for chapter in chapters:
            self.chapter(chapter, needs[book.short(chapter)], *others)
        for text in self.texts:
            if not re.match(r"docs/book/\d\d", text):
                marked = self.markup(read(text), text)
                if text == "docs/ops.md":
                    marked = re.sub(r"^\| (\w+) \| (?=[<`])", r"| [\1](../ops/op/\1.md) | ", marked, flags=re.M)
                self.write("about.md" if text == "README.md" else text, marked)
        rooms, folders = self.ops(entries), collections.defaultdict(list)
        for path in self.headers:
            about = re.search(r"#pragma once\n(?:\s*#include.*\n|\s*\n)*((?://(?!/).*\n)+)", read(path))
            about = re.sub(r"^// ?", "", about[1], flags=re.M) if about else ""
            text = api.page(path, entries[path], about, lambda file, line, page=path: self.to(file, page, line))
            self.write(path + ".md", notation.translate(text))
            folders[os.path.dirname(path)].append({os.path.basename(path): path + ".md"})
        umbrella = [h for h in self.headers if re.match("ops/(?!engine/|testing/)", h)]
        modules = api.python_package(ROOT, os.path.join(self.out, "python"), umbrella)
        for name in modules:
            self.write(f"python/{name}.md", f"# {name.replace('_core.', '')}\n\n::: {name}\n    options:\n      show_root_heading: false\n")
        recording = f"```text\n$ ./ct mnist\n{read('docs/site/mnist.txt')}```"
        text = self.markup(read("docs/site/index.md"), "docs/site/index.md").replace("<!-- recording -->", recording)
        self.write("index.md", text.replace("../../", "").replace("](../", "](docs/"))
        for name in ("site.css", "parts.js", "iframe-worker.js"):
            self.copy(f"docs/site/{name}", f"assets/{name}")
        for path in sorted(self.sources):
            language = LANGUAGES.get(path.rsplit(".", 1)[-1], "text")
            body = re.sub(r"`{5,}", "````", read(path).rstrip("\n"))
            self.write(f"source/{path}.md", f"---\nsearch:\n  exclude: true\n---\n# {path}\n\nAt {self.commit}.\n\n"
                       f'`````{{ .{language} linenums="1" }}\n{body}\n`````\n')

        def among(pattern, first="README.md"):
            return sorted((f for f in self.texts if re.match(pattern, f)), key=lambda f: (not f.endswith(first), f))

        ops = ["ops/README.md", {"All ops": "docs/ops.md"}]
        for room in sorted({os.path.dirname(f) for f in among("ops/.*/")} | set(rooms)):
            derived = [f if f.endswith("README.md") else {os.path.basename(f)[:-3] + ", derived": f} for f in among(f"{room}/[^/]*$")]
            ops.append({room.removeprefix("ops/"): derived + rooms[room]})
        return [{"Home": "index.md"},
                {"Book": ["docs/book/README.md", *[f"docs/book/{c.name}.md" for c in chapters], "docs/book/appendix.md", {"mini.h": "docs/book/mini/README.md"}, {"Glossary": "docs/glossary.md"}]},
                {"Ladders": among("bench/ladders/")}, {"Ops": ops},
                {"C++": [{folder: pages} for folder, pages in sorted(folders.items())]},
                {"Python": ["docs/python.md", {"From PyTorch": "docs/pytorch.md"}, *[{n.split(".")[-1]: f"python/{n}.md"} for n in modules]]},
                {"Guides": [{"The library": "about.md"}, *among("docs/(?!ops|glossary|pytorch|python|book)", "design.md"),
                            *among("core|autograd|nn|examples|C|S")]}]

    def build(self):
        config, site = os.path.join(self.out, "mkdocs.yml"), os.path.join(self.out, "html")
        settings = {"INHERIT": os.path.join(HERE, "mkdocs.yml"), "docs_dir": self.pages, "site_dir": site, "nav": self.generate()}
        book.write(config, json.dumps(settings, indent=1))  # JSON is YAML
        environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "COTANGENT_PYTHON_PAGES": os.path.join(self.out, "python")}
        done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "-f", config], env=environment, capture_output=True, text=True)
        # MkDocs does not see the anchors of lines, which the highlighter makes.
        self.wrong += [line for line in done.stderr.split("\n") if re.match("WARNING|ERROR|.*Error", line) and "#__codelineno" not in line]

    def check(self):
        self.wrong += [f"no formula: {text}" for text in notation.unclear]
        for path in glob.glob(os.path.join(self.out, "html", "**", "*.html"), recursive=True):
            if far := re.findall(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="?(?:https?:)?//[^">\s]+', book.read(path)):
                self.wrong.append(f"{os.path.relpath(path, self.out)} wants another host: {far[0]}")
        if shutil.which("node"):
            done = subprocess.run(["node", os.path.join(HERE, "parts_test.mjs"), os.path.join(self.out, "html")], capture_output=True, text=True)
            self.wrong += [done.stdout + done.stderr] if done.returncode else []
        print(done.stdout.strip() if shutil.which("node") else "no node: interactive parts are not compared")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("build", "check"):
        sys.exit(__doc__)
    site = Site(os.path.abspath(sys.argv[2]))
    site.build()
    if sys.argv[1] == "check":
        site.check()
    if site.wrong:
        sys.exit("\n".join(site.wrong))
    print(os.path.join(site.out, "html", "index.html"))


if __name__ == "__main__":
    main()
