"""Reads the public headers: functions, structs of options, enums and classes, with their documentation.

The headers are laid out by clang-format, so a scanner of brackets suffices: what it meets at the level of a namespace or of a
class is a declaration, `///` above it its documentation.
"""
import dataclasses
import pathlib
import re


@dataclasses.dataclass
class Parameter:
    type: str            # without const and &
    name: str
    default: str | None  # C++, None where it is required
    reference: bool      # a non-const reference
    doc: str = ""


@dataclasses.dataclass
class Function:
    scope: str           # its namespace
    name: str
    result: str
    parameters: list[Parameter]
    doc: str
    const: bool = False
    member: bool = False  # its first parameter is the object


@dataclasses.dataclass
class Class:
    scope: str
    name: str
    bases: str
    doc: str
    functions: list[Function]  # public ones; constructors have no result
    fields: list[Parameter]
    template: bool = False


def split(text, mark=","):
    """The parts of a text between marks that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "<({[") - (c in ">)}]" and text[i - 1] != "-")
        if c == mark and depth == 0 and text[i - 1:i + 2] != "','":
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in [*parts, text[start:]] if p.strip()]


def declarations(text):
    """(documentation, head, body) of each declaration: a body is what stands in braces, None behind a semicolon.

    Documentation holds for the declarations that follow it up to an empty line. `///<` behind one is put into its head as
    a comment.
    """
    doc, begun, head, depth, i = [], False, "", 0, 0
    note = re.compile(r"[ \t]*(///?<?|#)((?:.*\\\n)*.*)")
    while i < len(text):
        if not head.strip() and (line := note.match(text, i)):
            if line[1] == "///":
                code = re.match(r" {5}.*(ct::|[;{}] *(//.*)?$)", line[2])  # is C++'s alone
                doc, begun = [*(doc if begun else []), *([] if code else [line[2].strip()])], True
            i = line.end()
            continue
        c = text[i]
        if text.startswith("//", i):
            end = (text + "\n").index("\n", i)
            head += f"/*{text[i + 4:end].strip()}*/" if text.startswith("///<", i) else ""
            i = end
            continue
        if c == "\n" and not head.strip() and text[i + 1:i + 2] == "\n":
            doc, begun = [], False
        depth += (c == "(") - (c == ")")
        end = i + 1
        if c == "{":
            level = 1
            while level:
                level += (text[end] == "{") - (text[end] == "}")
                end += 1
        value = c == "{" and (depth or re.search(r"=\s*$", head))
        if depth == 0 and c in ";{" and not value:
            begun = False
            behind = re.compile(r"\s*;" if c == "{" else r"[ \t]*///<(.*(?:\n *///<? .*)*)").match(text, end)
            if c == ";" and behind:
                head += "/*" + re.sub(r"\n *///<?", " ", behind[1]).strip() + "*/"
            if head.strip():
                yield "\n".join(doc), head.strip(), text[i + 1:end - 1] if c == "{" else None
            head, i = "", behind.end() if behind else end
        else:
            head += text[i:end]
            i = end


def parameter_of(text):
    text = re.sub(r"/\*.*?\*/|\[\[.*?\]\]", "", text).strip()
    left, equals, default = text.partition("=")
    if equals and left.rstrip().endswith("operator"):
        return None
    match = re.match(r"(.*?[\s&*>])(\w+)\s*$", left.strip(), re.S)
    if not match:
        return Parameter(left.strip(), "", default.strip() or None, False)
    kind = " ".join(match[1].split())
    bare = re.sub(r"^const ", "", kind).rstrip("& ").strip()
    if not equals and bare.startswith("std::optional<"):  # clamp(x, high=1): C++ has no names, Python has
        equals, default = "=", "std::nullopt"
    return Parameter(bare, match[2], " ".join(default.split()) if equals else None,
                     kind.endswith("&") and not kind.startswith("const"))


_FUNCTION = re.compile(r"(?P<result>[\w:<>,&* ]*?)(?P<name>~?\w+|operator\W+)\((?P<rest>.*)", re.S)


def function_of(scope, head, doc):
    head = re.sub(r"/\*.*?\*/|\[\[.*?\]\]|\b(CT_API|inline|static|explicit|virtual|constexpr)\b", "", head).strip()
    match = _FUNCTION.match(" ".join(head.split()))
    if not match or "operator" in match["name"] or "=" in match["result"]:
        return None
    depth, end = 1, 0
    rest = match["rest"]
    while depth:
        depth += (rest[end] == "(") - (rest[end] == ")")
        end += 1
    parameters = [parameter_of(p) for p in split(rest[:end - 1])]
    return Function(scope, match["name"], match["result"].strip(), parameters, doc,
                    rest[end:].strip().startswith("const"))


def fields_of(head):
    """The fields of `Tensor a, b = {}`."""
    first, *more = split(re.sub(r"/\*.*?\*/", "", head))
    one = parameter_of(first)
    return [dataclasses.replace(one, name=n.strip(), default=d.strip() if e else None)
            for n, e, d in [(one.name, one.default is not None and "=", one.default or "")] +
            [part.partition("=") for part in more]]


def class_of(scope, head, body, doc):
    template = head.startswith("template")
    head = re.sub(r"template\s*<.*?>\s*(?=class|struct)|requires\(.*?\)\s*(?=class|struct)|\bCT_API\b|\bfinal\b", "", head,
                  flags=re.S)
    match = re.match(r"(class|struct)\s+(\w+)\s*(?::\s*(.*))?$", head.strip(), re.S)
    if not match:
        return None
    made = Class(scope, match[2], re.sub(r"\b(public|virtual)\b|\s+", " ", match[3] or "").strip(), doc, [], [], template)
    public = match[1] == "struct"
    parts = re.split(r"^ (public|private|protected):", body, flags=re.M)
    for access, text in zip(["public" if public else "private", *parts[1::2]], parts[::2]):
        for note, inner, block in declarations(text if access == "public" else ""):
            if "operator" in inner:
                continue
            inner = re.sub(r"^template\s*<[^<>]*(<[^<>]*>[^<>]*)*>\s*", "", inner)
            if "(" in re.sub(r"/\*.*?\*/|=.*", "", inner, flags=re.S) and not inner.startswith(("friend", "using", "std::function<")):
                function = function_of(scope, inner, note)
                if function and "delete" not in inner.rpartition(")")[2]:
                    made.functions.append(function)
            elif block is None and inner and not inner.startswith(("friend", "using", "enum", "static", "class", "struct")):
                notes = re.findall(r"/\*(.*?)\*/", inner)
                for field in fields_of(inner):
                    field.doc = note or " ".join(notes)
                    made.fields.append(field)
    return made


def words_of(enum):
    return re.findall(r"(\w+)[^,]*", re.sub(r"//.*", "", enum))


class Headers:
    """Declarations of the headers: functions by name, in order; classes and enums by their full names."""

    def __init__(self, root, paths):
        self.functions, self.classes, self.enums = [], {}, {}
        self.read(root, paths)

    def read(self, root, paths):
        for path in paths:
            self._read("", (pathlib.Path(root) / path).read_text())

    def _read(self, scope, text):
        for doc, head, body in declarations(text):
            space = re.match(r"(?:inline )?namespace ([\w:]+)$", head)
            if space:
                self._read(f"{scope}::{space[1]}" if scope else space[1], body)
            elif enum := re.match(r"enum class (\w+)", head):
                self.enums[f"{scope}::{enum[1]}"] = words_of(body or "")
            elif re.search(r"\b(class|struct)\s+(CT_API\s+)?\w+[^;(]*$", head) and body is not None:
                made = class_of(scope, head, body, doc)
                if made and self.classes.setdefault(f"{scope}::{made.name}", made) is made:
                    for name, words in re.findall(r"enum class (\w+) \{(.*?)\}", body, re.S):
                        self.enums[f"{scope}::{made.name}::{name}"] = words_of(words)
            elif "(" in head and not head.startswith(("template", "extern", "using", "static_assert", "friend")):
                function = function_of(scope, head, doc)
                if function:
                    self.functions.append(function)
