"""Pages of the public headers, whose entries Doxygen finds, and a copy of the Python package for mkdocstrings."""
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET

from book import read, write

DOXYGEN = """INPUT={}
XML_OUTPUT={}
GENERATE_HTML=NO
GENERATE_LATEX=NO
GENERATE_XML=YES
XML_PROGRAMLISTING=NO
MACRO_EXPANSION=YES
EXPAND_ONLY_PREDEF=YES
PREDEFINED="CT_API=" "CT_EXCEPTION="
EXTRACT_ALL=YES
"""


class Entry:
    """A function, class, type or constant of a header: its declaration and comment as they stand there."""

    def __init__(self, root, node):
        at = node.find("location")
        self.file, self.line = at.get("declfile") or at.get("file"), int(at.get("declline") or at.get("line") or 1)
        self.file = os.path.relpath(self.file, root) if os.path.isabs(self.file) else self.file
        self.kind, self.members = node.get("kind"), []
        self.name = (node.findtext("name") or re.sub(" *<.*", "", node.findtext("compoundname"))).split("::")[-1]
        lines, first = read(os.path.join(root, self.file)).split("\n"), self.line - 1
        while first and re.match(r"\s*(template|requires|typename|\[\[|CT_API$|[\w:<>, &*]*[\w>&*,]$)", lines[first - 1]):
            first -= 1
        depth, code = 0, "\n".join(lines[first:self.line + 30])
        for n, c in enumerate(code):
            depth += (c in "(") - (c in ")")
            if depth == 0 and (c == ";" or c == "{" and self.kind not in ("enum", "variable") or self.kind == "define" and c == "\n"):
                break
        code = re.sub(r"\)\s*:\s.*", ")", code[:n], flags=re.S) if self.kind == "function" else code[:n]
        self.code = textwrap.dedent(re.sub(r"CT_API | *///<.*", "", code)).strip()
        self.text = "".join(re.findall(r"///< ?(.*)", lines[self.line - 1]))
        while first and (match := re.match(r"\s*///(?!<) ?(.*)", lines[first - 1])):
            self.text, first = re.sub(r"^ {2,}", "    ", match[1]) + "\n" + self.text, first - 1
        self.text = re.sub(r"^(?! {4}).+\n(?= {4})|^ {4}.*\n(?! {4})", r"\g<0>\n", self.text, flags=re.M)  # formulas stand apart


def headers(root, files, work):
    """{path: entries in the order of their lines} of the public headers."""
    shutil.rmtree(work, ignore_errors=True)  # pages of headers that have changed
    os.makedirs(work)
    subprocess.run(["doxygen", "-"], input=DOXYGEN.format(" ".join(files), work), text=True, cwd=root, check=True, capture_output=True)
    found, seen = collections.defaultdict(list), set()
    for path in sorted(glob.glob(os.path.join(work, "*.xml"))):
        for compound in ET.parse(path).getroot().iter("compounddef"):
            if re.search("detail|@", compound.findtext("compoundname")) or compound.get("kind") in ("dir", "concept"):
                continue
            owner = Entry(root, compound) if compound.get("kind") in ("class", "struct", "union") else None
            if owner:
                found[owner.file].append(owner)
            for node in compound.iter("memberdef"):
                if node.get("prot") != "private" and node.get("kind") != "friend" and node.get("id") not in seen:
                    seen.add(node.get("id"))
                    entry = Entry(root, node)
                    (owner.members if owner else found[entry.file]).append(entry)
    for entries in found.values():
        for some in (entries, *(entry.members for entry in entries)):
            some.sort(key=lambda entry: entry.line)
    return found


def page(path, entries, about, source):
    """Markdown of a header's page; `source` makes the link to a line."""
    out = [f"# {path}", f"```cpp\n#include <cotangent/{path}>\n```", about]
    for entry in (entry for entry in entries if entry.kind != "define" or entry.text):
        out += [f"## {entry.name}", f"```cpp\n{entry.code}\n```", f"[{path}:{entry.line}]({source(path, entry.line)}){{ .line }}", entry.text]
        for member in entry.members:
            if member.text:
                out += [f"#### {entry.name}::{member.name}", f"```cpp\n{member.code}\n```", member.text]
        if plain := [member.code for member in entry.members if not member.text]:
            out.append("```cpp\n" + "\n".join(plain) + "\n```")
    return "\n\n".join(part for part in out if part) + "\n"


def python_package(root, work, names):
    """The package with stubs in place of its compiled part, for a reader that imports nothing; returns its modules."""
    generate = os.path.join(root, "python", "generate")
    sys.path.insert(0, generate)
    import stubs
    package = os.path.join(work, "cotangent")
    os.makedirs(os.path.join(package, "_core"), exist_ok=True)
    write(os.path.join(work, "ops.h"), "".join(f"#include <cotangent/{name}>\n" for name in names))
    subprocess.run([sys.executable, os.path.join(generate, "bindings.py"), root, os.path.join(work, "ops.h"), work], check=True)
    published, parts = json.loads(read(os.path.join(work, "published.json"))), collections.defaultdict(str)
    parts["functions"] = "".join(stubs.function(entry) for entry in published["functions"] if entry["function"])
    for key, part in (("plain", "classes"), ("layers", "layers"), ("optimizers", "optimizers")):
        for entry in published[key]:
            text = stubs.members(entry) or f"class {entry['name']}:\n    ...\n" if "methods" in entry else stubs.function(entry)
            if "methods" in entry and entry.get("doc"):
                text = text.replace(":\n", ":" + stubs.documented(entry["doc"], "") + "\n", 1)
            parts[part] += text
    parts["tensor"] = "class Tensor:\n" + "\n".join(stubs.function(p, "    ", True) for p in published["functions"] if p["method"])
    for name, text in (*parts.items(), ("__init__", "")):
        text = re.sub(r"(?<=\n\n)((?: +\S.* {2,}\S.*\n)+)", lambda m: textwrap.indent(m[1], "    "), re.sub(r"^ +$", "", text, flags=re.M))
        write(os.path.join(package, "_core", name + ".py"), text.replace("][", "]&#91;"))  # tables stay, and indices are no links
    write(os.path.join(package, "__init__.py"), "")
    modules = sorted(glob.glob(os.path.join(root, "python", "cotangent", "[a-z]*.py")))
    for path in modules:
        write(os.path.join(package, os.path.basename(path)), read(path))
    return [f"cotangent._core.{part}" for part in parts] + [f"cotangent.{os.path.basename(path)[:-3]}" for path in modules]
