"""Compiles and runs the programs of the book; docs/book/book.py says which."""
import os
import re
import shlex
import shutil
import subprocess
import sys

BOOK = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(BOOK))


class Wrong(Exception):
    """A sentence for the reader: what is not as it should be."""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def gpu_architecture():
    """sm_90a, say, of the GPU that is here; None where there is none."""
    if not shutil.which("nvidia-smi"):
        return None
    found = subprocess.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], capture_output=True,
                           text=True).stdout
    number = re.match(r"(\d+)\.(\d)", found)
    return number and f"sm_{number[1]}{number[2]}{'a' if int(number[1]) >= 9 else ''}"


def find_nvcc():
    return shutil.which(os.environ.get("CUDACXX") or "nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


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
        archive = {name: os.path.join(build, f"lib{name}.a")
                   for name in ("cotangent_samples", "cotangent_io", "cotangent_plugin", "cotangent_testing", "cotangent")}
        # A program that loads ops exports all that any op may call (Cotangent::loader).
        self.loader = ["-Wl,--export-dynamic", "-Wl,--whole-archive", *list(archive.values())[2:], "-Wl,--no-whole-archive"]
        self.libraries = list(archive.values())
        self.libraries += shlex.split(libraries.group(1)) if libraries else []
        os.makedirs(os.path.join(self.work, "figures"), exist_ok=True)

        self.nvcc = find_nvcc()
        self.gpu = self.nvcc and "cudart" in " ".join(self.libraries) and gpu_architecture()

    def why_no_gpu(self):
        """The reason why programs for a GPU can't run here."""
        if not self.nvcc:
            return "not even compiled, there is no nvcc"
        return "no GPU" if "cudart" in " ".join(self.libraries) else "the library was built without CUDA"

    def run_compiler(self, command, what):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Wrong(f"{what} does not compile:\n{done.stderr[:4000]}")
        sys.stderr.write(done.stderr)  # warnings

    def program(self, source, *flags):
        target = os.path.join(self.work, os.path.splitext(os.path.basename(source))[0])
        loader = self.loader if "/load_op.h>" in read(source) else []
        self.run_compiler([*self.compiler, *flags, source, *loader, *self.libraries, "-o", target],
                          os.path.relpath(source, ROOT))
        return target

    def gpu_program(self, source):
        """Compiled for the GPU that is here, and linked; where there is none, only compiled, and None."""
        target = os.path.join(self.work, os.path.splitext(os.path.basename(source))[0] + "-gpu")
        flags = [flag for flag in self.compiler if flag.startswith(("-I", "-std"))]
        warnings = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror"]
        flags += ["--expt-relaxed-constexpr", "--extended-lambda", *warnings]
        flags += [f"-arch={self.gpu}", "-O2"] if self.gpu else ["-arch=sm_90a", "-O0"]
        self.run_compiler([self.nvcc, *flags, "-c", source, "-o", target + ".o"], os.path.relpath(source, ROOT))
        if not self.gpu:
            return None
        self.run_compiler([*self.compiler, target + ".o", *self.libraries, "-o", target], target)
        return target

    def all_in_one(self, parts_of, name):
        """Several programs as one, NAME: its headers are parsed once, which is most of the time. A file's includes go
        to the top, and the rest into a namespace; the argument chooses one of them. `parts_of` has the files of each by
        its name, an answer before the program that judges it."""
        answers = {os.path.basename(files[0]) for files in parts_of.values() if len(files) > 1}
        includes, parts = set(), []
        for part, files in parts_of.items():
            parts.append(f"namespace {part} {{")
            for file in files:
                parts.append(f'#line 1 "{file}"')
                for line in read(file).split("\n"):
                    included = re.match(r"#include <(.*)>", line)
                    if included and included[1] not in answers:
                        includes.add(line)
                    kept = not included and line != "#pragma once"
                    parts.append(line.replace("int main()", "int program()") if kept else "")
            parts.append(f"}}  // namespace {part}")
        choice = "".join(f'  if (argument == "{part}") return {part}::program();\n' for part in parts_of)
        source = os.path.join(self.work, name)
        write(source, "\n".join([*sorted(includes), "#include <string_view>", *parts,
                                 "int main(int, char** arguments) {",
                                 "  const std::string_view argument = arguments[1];", choice + "  return 2;\n}\n"]))
        return source

    def run(self, program, *arguments, figures="figures", timeout=600, **options):
        environment = {**os.environ, "BOOK_FIGURES": os.path.join(self.work, figures),
                       "COTANGENT_CACHE": os.path.join(self.work, "cache"), "ASAN_OPTIONS": "handle_abort=1"}
        return subprocess.run([program, *arguments], env=environment, text=True, timeout=timeout, **options)

    def run_judge(self, program, answer):
        """The exit status of an answer's judge, which has a minute. Where a check of an index or of memory ends it, the line of the
        answer takes the place of the trace."""
        try:
            done = self.run(program, timeout=60, stderr=subprocess.PIPE)
        except subprocess.TimeoutExpired:
            raise Wrong("the judge has not ended within a minute: look for a loop that does not end") from None
        said, _, trace = done.stderr.partition("\n    #0 ")
        if place := re.search(rf"\b{re.escape(os.path.basename(answer))}:\d+", trace):
            said = re.sub(r"^(=+\n|AddressSanitizer:DEADLYSIGNAL\n|.*: ABRT on .*|/.*(?=Assertion '))", "", said, flags=re.M).rstrip()
            said += f"\nin {os.path.relpath(os.path.dirname(answer), ROOT)}/{place[0]}\n"
        sys.stderr.write(said if place else done.stderr)
        return done.returncode
