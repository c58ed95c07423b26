#!/usr/bin/env python3
"""Exercises in CUDA that are judged on the CPU (docs/book/exercises/kernels), and faults to find.

  exercise.py                     lists them
  exercise.py NAME                judges exercises/kernels/NAME.cu; --hint [N] prints a hint
  exercise.py faults [N]          judges build/exercises/fault_N.cu, which it makes first; --hint, --answer
  exercise.py check               every judge refuses the stub, the wrong answers below and the faults, and takes the solution;
                                  nvcc, where there is one, compiles stubs and solutions
      --compiler C++ --work DIR
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

from builder import BOOK, ROOT, Wrong, find_nvcc, read, write

KERNELS = os.path.join(BOOK, "exercises", "kernels")
NAMES = re.findall(r"^## ([a-z_]+)$", read(os.path.join(KERNELS, "README.md")), re.M)

# Wrong answers that each judge must refuse: (exercise, what is wrong, old text of the solution, new text, what the judge says).
REFUSED = [
    ("transpose", "a tile whose columns lie in one bank", "tile[32][33]", "tile[32][32]", "too many: turns of shared memory"),
    ("transpose", "no barrier between writing and reading the tile", "  __syncthreads();\n", "", "of shared memory, which nobody has written"),
    ("transpose", "a ragged edge is not asked for", "if (top + i < rows && left + lane < columns) tile", "if (left + lane < columns) tile",
     r"transpose.cu:8: thread \(\d+, \d\) of block \(\d, 1\) reads x\[\d+\]; it has 3150 elements"),
    ("transpose", "a tile with a row too few", "tile[32][33]", "tile[31][33]", "runtime error: index 31 out of bounds"),
    ("block_sum", "runs of neighbours for each thread: eight times the sectors",
     "for (int i = first + t; i < min(n, first + 1024); i += 256)", "for (int i = first + 4 * t; i < min(n, first + 4 * t + 4); ++i)",
     "too many: sectors loaded"),
    ("block_sum", "shuffles by a part of a warp", "sum = warp_sum(t < 8 ? warps[t] : 0);", "if (t < 8) sum = warp_sum(warps[t]);",
     "not all threads come to the same barrier or shuffle: .* waits in line 4, .* has ended"),
    ("histogram", "counts of the block that nobody has set to zero", "  if (t < 64) own[t] = 0;\n", "", "adds to the word .* which nobody has written"),
    ("histogram", "counts that others still add to", "atomicAdd(&own[x[i]], 1);\n  __syncthreads();\n", "atomicAdd(&own[x[i]], 1);\n",
     "no barrier lies between the two"),
    ("bias_backward", "an eighth of the rows for each of eight warps, in the first one", "for (int i = warp; i < rows && j < columns; i += 8)",
     "for (int i = 0; warp == 0 && i < rows && j < columns; ++i)", "too many: numbers loaded by one thread"),
    ("bias_backward", "a row too few", "i < rows && j", "i < rows - 1 && j", r"db\[0\] is"),
    ("softmax", "the row is read twice", "v[k] = expf(v[k] - top);", "v[k] = t + 128 * k < n ? expf(x[t + 128 * k] - top) : 0;",
     "too many: sectors loaded"),
    ("softmax", "0 is the largest number of a row of negative ones", "top = -INFINITY, sum", "top = 0, sum", r"3 rows of 1024\ny\[1024\] is"),
    ("softmax_backward", "y and g are read from memory again", "= yy[k] * (gg[k] - dot)",
     "= y[row + t + 128 * k] * (g[row + t + 128 * k] - dot)", "too many: sectors loaded"),
    ("softmax_backward", "a sum that leaves y out", "dot += yy[k] * gg[k];", "dot += gg[k];", r"dx\[0\] is"),
    ("layer_norm_backward", "rstd is taken for a constant", " - h[k] * (sums.y / n)", "", r"dx\[0\] is"),
    ("layer_norm_backward", "sums in the order of arrival",
     "  if (t % 32 == 0) first[t / 32] = a, second[t / 32] = b;\n  __syncthreads();\n"
     "  return {(first[0] + first[1]) + (first[2] + first[3]), (second[0] + second[1]) + (second[2] + second[3])};\n",
     "  if (t == 0) first[0] = second[0] = 0;\n  __syncthreads();\n  if (t % 32 == 0) atomicAdd(&first[0], a), atomicAdd(&second[0], b);\n"
     "  __syncthreads();\n  return {first[0], second[0]};\n", "too many: atomic additions"),
    ("layer_norm_backward", "means over the numbers of a longer row", "sums.x / n", "sums.x / 1024", r"dx\[\d+\] is"),
    ("bias_gelu_backward", "dx is read again for db", "    sum += d;\n  }\n",
     "  }\n  for (int i = warp; i < rows && j < columns; i += 8) sum += dx[i * columns + j];\n", "too many: sectors loaded"),
    ("bias_gelu_backward", "db is the sum of g", "    sum += d;", "    sum += g[i * columns + j];", r"db\[0\] is"),
]

# Faults to find: (exercise, what its tests say, old text of the solution, new text, hint, answer). Comments are taken away.
FAULTS = [
    ("softmax", "It passes on some GPUs for years, then a row is wrong once in a million.",
     "  __syncthreads();  // what the call before has left is read\n", "",
     "The same shared words serve two calls. Who may still be reading when the second one writes?",
     "The barrier before the write is missing: a fast warp overwrites warps[] while a slow one still adds up the first call's."),
    ("layer_norm_backward", "The network trains, a little worse than it should; gradients are off where the deviation of a row is not 1.",
     "(x[row + i] - m) * r : 0", "(x[row + i] - m) : 0",
     "Which of the two sums has the wrong unit, if x is measured in metres?",
     "h is not normalized: its factor rstd is missing, so the term along h is off by rstd squared."),
    ("softmax_backward", "Right for up to 64 classes, wrong for more.",
     "(warps[2] + warps[3])", "(warps[2] + warps[2])",
     "Write down whose numbers the block's sum has, and how often.",
     "The fourth warp's part is missing and the third one's is there twice; rows that only two warps have numbers of don't show it."),
    ("block_sum", "Right for full blocks of 1024, too large or NaN for the last one.",
     "warps[t] : 0);", "warps[t] : sum);",
     "Lanes 8 to 31 of the first warp take part in the last shuffles. With which number?",
     "Their addend must be 0: they bring their own warp's sum again, 24 times."),
    ("bias_backward", "One column in 32 is right.",
     "sum += part[k][lane]", "sum += part[k][0]",
     "Whose sums does a lane add at the end?",
     "part[k][0] is the first column's; every lane must take its own, part[k][lane]."),
    ("bias_gelu_backward", "dx is right for x near 0, and wrong by up to a tenth elsewhere.",
     "expf(-0.5f * u * u)", "expf(-u * u)",
     "Which density is the derivative of P?",
     "P'(u) = exp(-u u / 2) / sqrt(2 pi): the half in the exponent is missing. At u = 0 nothing shows."),
    ("histogram", "The counts are right on one block, and add up to less than n on several.",
     "if (t < 64) atomicAdd(&counts[t], own[t]);", "if (t < 64) counts[t] = counts[t] + own[t];",
     "Two blocks end at the same time. What do both read?",
     "The last addition must be atomic: both blocks read the same count, and one of the two sums is lost."),
    ("transpose", "For matrices of few rows the result is another one in each run, or the launch hangs.",
     "  __syncthreads();\n", "  if (top + 32 <= rows || threadIdx.y < rows - top) __syncthreads();\n",
     "Do all threads of a block of a ragged edge come to the barrier?",
     "The barrier stands in a branch: threads without a row never come to it. What may be conditional is the access, not the barrier."),
]


class Judge:
    """Compiles kernels for the emulator. One object has all judges; a program has one kernel."""

    def __init__(self, compiler, work):
        self.compiler, self.work = [*compiler.split(), "-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Wno-sign-compare", "-I" + os.path.join(BOOK, "code")], work
        os.makedirs(work, exist_ok=True)
        self.judges = os.path.join(work, "judges.o")
        used = [os.path.join(KERNELS, "judges.cpp"), *(os.path.join(BOOK, "code", name + ".h") for name in ("emulator", "device", "warp", "book"))]
        if not os.path.exists(self.judges) or max(map(os.path.getmtime, used)) > os.path.getmtime(self.judges):
            self.compile("-c", used[0], "-o", self.judges, what="judges.cpp")

    def compile(self, *arguments, what):
        done = subprocess.run([*self.compiler, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise Wrong(f"{what} does not compile:\n{done.stderr[:4000]}")
        return done.stderr

    def __call__(self, kernel, **options):
        """Status, and what was printed where that is asked for, of the judge on a file."""
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            thing, program = os.path.join(folder, "kernel.o"), os.path.join(folder, "program")
            # The announcements of the thread sanitizer go to the emulator (emulator.h), which takes its library's place.
            warnings = self.compile("-x", "c++", "-include", "device.h", "-fsanitize=thread,undefined", "-fno-sanitize-recover=all", "-c",
                                    kernel, "-o", thing, what=os.path.relpath(kernel, ROOT))
            if not options:  # a reader's file, not one of check()
                sys.stderr.write(warnings)
            self.compile("-no-pie", self.judges, thing, "-fsanitize=undefined", "-o", program, what="the program")
            try:
                done = subprocess.run([program], timeout=60, text=True, **options)
            except subprocess.TimeoutExpired:
                raise Wrong("the kernel has not ended within a minute: look for a loop that does not end") from None
            if done.returncode < 0:
                raise Wrong(f"the kernel was ended by signal {-done.returncode}: more than 64 KiB of local variables, or a division by zero")
            return done


def file_of(name, solved=False):
    return os.path.join(BOOK, "solutions", "kernels", name + ".cu") if solved else os.path.join(KERNELS, name + ".cu")


def planted(name, old, new):
    """A solution with a fault in it."""
    text = read(file_of(name, solved=True))
    if text.count(old) != 1:
        raise Wrong(f"{name}: the text of a fault stands {text.count(old)} times in the solution, not once: {old}")
    return text.replace(old, new)


def hints(name):
    section = re.search(rf"^## {name}$(.*?)(?=^## |\Z)", read(os.path.join(KERNELS, "README.md")), re.M | re.S)[1]
    return [" ".join(text.split()) for text in re.findall(r"</summary>(.*?)</details>", section, re.S)]


def judge(name, options):
    if name not in NAMES:
        raise Wrong(f"there is no exercise {name}; ./ct exercise lists them")
    if options.hint:
        known = hints(name)
        print(known[min(options.hint, len(known)) - 1])
        return 0
    status = Judge(options.compiler, options.work)(file_of(name)).returncode
    if status == 0:
        following = NAMES[NAMES.index(name) + 1:][:1] or ["faults"]
        print(f"compare: {os.path.relpath(file_of(name, solved=True), ROOT)}; next: ./ct exercise {following[0]}")
    return status


def find_fault(number, options):
    if not 1 <= number <= len(FAULTS):
        raise Wrong(f"there is no fault {number}; there are 1 to {len(FAULTS)}")
    name, says, old, new, hint, answer = FAULTS[number - 1]
    if options.hint or options.answer:
        print(answer if options.answer else hint)
        return 0
    path = os.path.join(options.work, f"fault_{number}.cu")
    print(f"fault {number}, {name}: {says}\n{os.path.relpath(path)}")
    checked = Judge(options.compiler, options.work)
    if not os.path.exists(path):
        text = re.sub(r"\A(?://.*\n)+|  // .*$", "", planted(name, old, new), flags=re.M)
        write(path, text)
    status = checked(path).returncode
    if status == 0:
        print(answer + ("" if number == len(FAULTS) else f"\nnext: ./ct exercise faults {number + 1}"))
    return status


def check(options):
    checked, wrong = Judge(options.compiler, options.work), []
    cases = [(name, "right", "the solution", read(file_of(name, solved=True))) for name in NAMES]
    cases += [(name, "", "the stub", read(file_of(name))) for name in NAMES]
    cases += [(name, says, what, planted(name, old, new)) for name, what, old, new, says in REFUSED]
    cases += [(name, "", f"fault {n}", planted(name, old, new)) for n, (name, _, old, new, _, _) in enumerate(FAULTS, 1)]

    def one(case):
        name, says, what, text = case
        with tempfile.TemporaryDirectory(dir=options.work) as folder:
            file = os.path.join(folder, name + ".cu")
            write(file, text)
            done = checked(file, capture_output=True)
        said = (done.stdout + done.stderr).strip()
        if options.verbose:
            print(f"{name}, {what}: {said.splitlines()[-1]}")
        if done.returncode != (0 if says == "right" else 1) or not re.search(says, said):
            return f"{name}: the judge ought to {'take' if says == 'right' else 'refuse'} {what}, and to say \"{says}\":\n{said}"
        return None

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong += filter(None, pool.map(one, cases))
    for name in NAMES:
        if sum(entry[0] == name for entry in REFUSED) < 2 or len(hints(name)) < 2:
            wrong.append(f"{name}: two wrong answers (REFUSED) and two hints are wanted")
    if nvcc := find_nvcc():
        source = os.path.join(options.work, "kernels.cu")
        write(source, "".join(f'namespace {folder}_{name} {{\n#include "{file_of(name, folder == "solution")}"\n}}\n'
                              for name in NAMES for folder in ("stub", "solution")))
        done = subprocess.run([nvcc, "-arch=sm_90a", "-std=c++20", "-O0", "-c", source, "-o", os.path.join(options.work, "kernels.o")],
                              capture_output=True, text=True)
        if done.returncode:
            wrong.append(f"nvcc refuses a kernel:\n{done.stderr[-2000:]}")
    if wrong:
        raise Wrong("\n".join(wrong))
    print(f"{len(NAMES)} kernels: their judges take the solutions and refuse {len(cases) - len(NAMES)} other texts, {len(FAULTS)} of "
          f"them faults to find; {'nvcc compiles them too' if nvcc else 'there is no nvcc to compile them, too'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?")
    parser.add_argument("number", nargs="?", type=int, help="of a fault")
    parser.add_argument("--hint", nargs="?", type=int, const=1)
    parser.add_argument("--answer", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="check: what each judge says")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "exercises"))
    options = parser.parse_args()
    try:
        if options.name == "check":
            return check(options)
        if options.name == "faults" and options.number:
            return find_fault(options.number, options)
        if options.name and options.name != "faults":
            return judge(options.name, options)
        if not options.name:
            print("\n".join(["kernels to write, docs/book/exercises/kernels/README.md:", *("  " + name for name in NAMES), "faults to find:"]))
        print("\n".join(f"  faults {n}   {fault[0]}: {fault[1]}" for n, fault in enumerate(FAULTS, 1)))
        return 0
    except (Wrong, OSError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
