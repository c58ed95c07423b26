"""The book's appendix, written of its chapters: the solution of each exercise, an index of words, and the code that is shown."""
import os
import re

from builder import BOOK, ROOT, Wrong, read, write

PAGE = os.path.join(BOOK, "appendix.md")
HEAD = """# Appendix: answers and index

Written by `docs/book/appendix.py` of the chapters, the solutions and the glossary; `./ct book --check` holds it to them.

## Answers

Read these after the judge, not before. Where a chapter asks a question without a program, its answer stands in the comment.

"""


def rows(text, heading):
    """Cells of the table below a heading of the glossary."""
    part = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in row.split("|")] for row in re.findall(r"^\|(?!-)(.*)\|$", part, re.M)][1:]


def short(chapter):
    """Its number as others write it: 9, 9b."""
    return chapter.number.lstrip("0") or "0"


def title(chapter):
    return chapter.text.partition("\n")[0].removeprefix("# ")


def question(chapter):
    found = re.search(r"questions?\s+without\s+a\s+program[^:]*:\s+(.*?)(?:\n\n|\Z)", chapter.text, re.S)
    return " ".join(found[1].split()) if found else ""


def answers(book):
    for c in book:
        asked = question(c)
        yield (f"### [{title(c)}]({c.name}.md#exercise)\n\n" + (f"*Question*: {asked[0].upper()}{asked[1:]}\n\n" if asked else "")
               + f"<!-- include docs/book/solutions/{c.answer} -->\n```cpp\n{read(os.path.join(BOOK, 'solutions', c.answer)).rstrip()}\n```\n")


def meanings(names, said):
    """Each name with what is said of it: the part of its own where there are as many parts as names, else all."""
    names, parts = re.split(", (?!of )", names), said.split("; ")
    return [(name, parts[n] if len(parts) == len(names) else said) for n, name in enumerate(names)]


def words(book):
    """Rows of the index: (word, what else it is called or means, where)."""
    glossary = read(os.path.join(ROOT, "docs", "glossary.md"))
    names = {short(c): c.name for c in book}
    others = {}
    for heading in "Words of processors", "Words of learning", "Words":  # the last has what others say
        for names_of, said, *_ in rows(glossary, heading):
            names_of = names_of.split(":")[0]
            said = re.sub(r" ?\(chapters? [^()]*\)$", "", said)
            for name, own in meanings(names_of, said):
                others[name.replace("`", "").lower()] = own
    defined = set()

    def chapter(number):
        return f"[{number}]({names[number]}.md)" if number in names else number

    for c in book:
        heading = ""
        for line in re.sub(r"```.*?^```$", "", c.text, flags=re.M | re.S).replace("\n", "\n\0").split("\n\n"):
            for part in re.split(r"(?=\0## )", "\0" + line):
                if found := re.match(r"[\0\s]*## (.*)", part):
                    heading = found[1].strip("\0")
                for bold in re.findall(r"\*\*(.+?)\*\*", part.replace("\0", ""), re.S):
                    word = " ".join(bold.split())
                    place = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
                    key = word.lower() if word.lower() in others else word.lower().removesuffix("s")
                    defined.add(key)
                    yield word, others.get(key, ""), f"[{short(c)}, {heading}]({c.name}.md#{place})"
    for theirs, ours, number in rows(glossary, "Others' words"):
        found = re.match(r"\[?(\d+[a-z]?)", number)
        for word, own in meanings(theirs, ours):
            yield word, f"here: {own}", chapter(found[1])
    for word, meaning in rows(glossary, "Words of processors"):
        if (found := re.search(r"\(chapters? (\d+[a-z]?)[^()]*\)$", meaning)) and not defined & set(re.split(", ", word.lower())):
            yield word, others[word.split(",")[0].lower()], chapter(found[1])


def shown(book):
    """Files of the library that chapters show parts of: (file, chapters)."""
    found = {}
    for c in book:
        for file, place in re.findall(r"^<!-- include ([^\s:]+)(?:: (.*?))?(?: \.\. .*?)? -->$", c.text, re.M):
            if not file.startswith("docs/"):
                found.setdefault(file, {}).setdefault(f"[{short(c)}]({c.name}.md)", None)
    return sorted((file, ", ".join(places)) for file, places in found.items())


def page(book):
    index = {}
    for word, meaning, where in words(book):
        index.setdefault(re.sub(r"[`*]", "", word).lower(), []).append((word, meaning, where))
    table = [f"| {word} | {meaning} | {where} |" for key in sorted(index) for word, meaning, where in index[key]]
    code = [f"| [{file}](../../{file}) | {places} |" for file, places in shown(book)]
    return (HEAD + "\n".join(answers(book)) + "\n## Index\n\nWords of the book, and what others say, with the section that defines them.\n\n"
            "| word | others say, or what it is | chapter |\n|---|---|---|\n" + "\n".join(table)
            + "\n\n## Code of the library in the chapters\n\n| file | chapters |\n|---|---|\n" + "\n".join(code) + "\n")


def check(book, options):
    wanted = page(book)
    if os.path.exists(PAGE) and read(PAGE) == wanted:
        return
    if not options.write:
        raise Wrong("appendix.md is not what the chapters make of it: docs/book/book.py check --write writes it")
    write(PAGE, wanted)
