#!/usr/bin/env python3
"""Shows that the conformance suite sees wrong gradients: puts one fault after the other into the CPU's backward
kernels and expects the suite to turn red each time.

The sources stay as they are. The library is built once at -O1 into --build. For each fault a changed copy of one
file is compiled there and linked in front of the library, whose own version of that file the linker then leaves
out. Exit status: 0 if every fault is caught, 1 if one survives or no longer fits the source.

usage: tests/mutation.py [--only N] [--jobs N] [--build FOLDER] [--list]
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import time

# (op, file that gets the fault, file to compile or None for that file itself, what it is, old text, new text).
# The old text stands in the file exactly once.
UNARY, BINARY = "ops/unary/unary_cpu.cpp", "ops/binary/binary_cpu.cpp"
FOLDS, LOSS = "ops/reduce/reduce_cpu.cpp", "ops/loss_cpu.h"
FAULTS = [
    ("tanh", "ops/unary/unary_table.inc", UNARY, "y not squared", "g * (1 - y * y))", "g * (1 - y))"),
    ("softplus", "ops/unary/unary_table.inc", UNARY, "beta left out of the sigmoid",
     "g, g * sigmoid(p * x))", "g, g * sigmoid(x))"),
    ("mul", "ops/binary/binary_table.inc", BINARY, "sign of db", "g * b, g * a)", "g * b, -g * a)"),
    ("div", "ops/binary/binary_table.inc", BINARY, "one division by b missing in db",
     "-g * ((a / b) / b))", "-g * (a / b))"),
    ("pow", "ops/binary/binary_table.inc", BINARY, "base and exponent swapped in db",
     "exponent_slope(g, a, b))", "exponent_slope(g, b, a))"),
    ("maximum", "ops/binary/binary_table.inc", BINARY, "the smaller operand gets the gradient",
     "maximum(a, b), larger_share(g, a, b), larger_share(g, b, a))",
     "maximum(a, b), larger_share(g, b, a), larger_share(g, a, b))"),
    ("where", "ops/where/where_cpu.cpp", None, "both branches get the first one's gradient",
     "gradient(b, 2, 1);", "gradient(b, 2, 0);"),
    ("add", "ops/sum_to.cpp", None, "a broadcast operand's gradient is averaged, not summed",
     "sum_cpu(grad, mask, out, 1, accumulate)",
     "sum_cpu(grad, mask, out, double(grad.numel()) / double(out.numel()), accumulate)"),
    ("mean", "ops/reduce/backward.cpp", None, "not divided by the count",
     "kind == Kind::mean ? count : 1, device.sum", "1, device.sum"),
    ("var", "ops/reduce/backward.cpp", None, "the correction is ignored",
     "? count - attrs.number : 0;", "? count : 0;"),
    ("max", FOLDS, None, "the position's stride is ignored",
     "winner[k] == number + i * number_step ?", "winner[k] == number + i ?"),
    ("amax", "ops/reduce/gradients_internal.h", FOLDS, "ties do not share",
     "return x == y || (x != x && y != y) ? g / aux : C(0);", "return x == y || (x != x && y != y) ? g : C(0);"),
    ("norm", "ops/reduce/gradients_internal.h", FOLDS, "order 2: not divided by the norm",
     "C(0) : g / y * x;", "C(0) : g * x;"),
    ("logsumexp", "ops/reduce/gradients_internal.h", FOLDS, "the result is not subtracted",
     "exp_of(y == -INFINITY ? x : x - y)", "exp_of(x)"),
    ("softmax", "ops/softmax/softmax_cpu.cpp", None, "sum outside of the product", "y * (g - sum)", "y * g - sum"),
    ("log_softmax", "ops/softmax/softmax_cpu.cpp", None, "sum of the cotangent left out",
     "g - exp_nonpositive(y) * sum", "g - exp_nonpositive(y)"),
    ("masked_softmax", "ops/masked_softmax/masked_softmax_cpu.cpp", None, "the scale is left out of dx",
     "b.grad_in(0), b.attrs<Attrs>().scale);", "b.grad_in(0), 1);"),
    ("dropout", "ops/dropout/dropout_cpu.cpp", None, "the cotangent is not dropped",
     "apply_cpu(b.grad().contiguous(), b.grad_in(0), Rule(b.attrs<Attrs>()));", "b.set_grad_in(0, b.grad());"),
    ("scaled_dot_product_attention", "ops/attention/attention_backward_cpu.cpp", None,
     "the softmax's sum is not subtracted", "* kept - delta) * factor;", "* kept) * factor;"),
    ("scaled_dot_product_attention", "ops/attention/attention_backward_cpu.cpp", None,
     "dropout is left out of dP", "(V::load(ds + at) * kept - delta)", "(V::load(ds + at) - delta)"),
    ("scaled_dot_product_attention", "ops/attention/attention_backward_cpu.cpp", None,
     "the diagonal is left out of dq", "diagonal_ + row + 1 - j0_", "diagonal_ + row - j0_"),
    ("matmul", "ops/matmul/product.cpp", None, "b not transposed in da",
     "Stack(b.in(1), in_b).t(), in_a", "Stack(b.in(1), in_b), in_a"),
    ("matmul", "ops/matmul/product.cpp", None, "a stack's second gradient replaces the first",
     "return multiply(x, y, Stack(b.grad_in(i), missing), b.accumulate(i), backend);",
     "return multiply(x, y, Stack(b.grad_in(i), missing), false, backend);"),
    ("linear", "ops/linear/linear_cpu.cpp", None, "the bias gets its gradient from the first row only",
     "sum_to(b.grad(), b.in_meta(2).shape)",
     "sum_to(b.grad().dim() > 1 ? b.grad().narrow(0, 0, 1) : b.grad(), b.in_meta(2).shape)"),
    ("mse_loss", "ops/mse_loss/mse_loss_cpu.cpp", None, "sign of dy", "dy = -dx;", "dy = dx;"),
    ("mse_loss", LOSS, "ops/mse_loss/mse_loss_cpu.cpp", "a mean's gradient is not divided by the count",
     "(reduction == Reduction::mean ? static_cast<double>(n) : 1.0));", "1.0);"),
    ("bce_with_logits", "ops/bce_with_logits/bce_with_logits_cpu.cpp", None, "pos_weight left out of dx",
     "* s - p * t * r);", "* s - t * r);"),
    ("nll_loss", "ops/nll_loss/nll_loss_cpu.cpp", None, "class weight left out",
     "-rows.weight_of(label) * scale", "-scale"),
    ("cross_entropy", "ops/cross_entropy/cross_entropy_cpu.cpp", None, "class weight left out at the label",
     "row[t * step] -= scale * hit;", "row[t * step] -= scale;"),
    ("cross_entropy_soft", "ops/cross_entropy/cross_entropy_cpu.cpp", None, "smoothing left out of dy",
     "-(scale * P(C(1) - smoothing) * w * v)", "-(scale * w * v)"),
    ("copy", "ops/copy/copy_cpu.cpp", None, "the cotangent is not converted back",
     "copy_cpu(b.grad_in(0), b.grad());", "b.set_grad_in(0, b.grad());"),
    ("concat", "ops/concat/concat.cpp", None, "every input gets the first part", "offset += length;", ""),
    ("permute", "ops/view/view_defs.cpp", None, "permuted once more instead of back",
     "b.grad().permute(inverse)", "b.grad().permute(axes)"),
    ("slice", "ops/view/view_defs.cpp", None, "put at the start instead of at its place",
     "at.strides, at.offset, whole.dtype()", "at.strides, 0, whole.dtype()"),
]

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TESTS = ["tests/main.cpp", "tests/conformance_test.cpp"]
CASE = '"every op conforms to its definition"'  # quoted: main.cpp appends the exclusion of CUDA tests
TIMEOUT = 300  # seconds for one op's suite


class Broken(Exception):
    """Nothing was learnt: the fault does not fit, or the build failed."""


def run(command, what, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          **options)
    if done.returncode:
        raise Broken(f"{what} failed:\n{done.stdout[-3000:]}")
    return done.stdout


class Tree:
    def __init__(self, build, jobs):
        self.build = os.path.abspath(build)
        self.work = os.path.join(self.build, "faults")
        os.makedirs(self.work, exist_ok=True)
        flags = ["CMAKE_BUILD_TYPE=Release", "CMAKE_CXX_FLAGS_RELEASE=-O1", "BUILD_SHARED_LIBS=OFF",
                 "CMAKE_DISABLE_PRECOMPILE_HEADERS=ON", "CMAKE_EXPORT_COMPILE_COMMANDS=ON", "COTANGENT_CUDA=OFF",
                 "COTANGENT_BUILD_TESTS=ON", "COTANGENT_BUILD_EXAMPLES=OFF", "COTANGENT_BUILD_BENCH=OFF",
                 "COTANGENT_INSTALL=OFF"]
        run(["cmake", "-S", ROOT, "-B", self.build, *("-D" + f for f in flags)], "cmake")
        run(["cmake", "--build", self.build, "--target", "cotangent", "--parallel", str(jobs)], "the build")
        with open(os.path.join(self.build, "compile_commands.json"), encoding="utf-8") as f:
            self.commands = {os.path.relpath(c["file"], ROOT): c for c in json.load(f)}
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            self.tests = list(pool.map(lambda t: self.compile(t, os.path.join(ROOT, t), self.work), TESTS))

    def compile(self, unit, source, folder, overlay=None):
        """Compiles `source` with the options of `unit`; files under `overlay` hide those of the project."""
        if unit not in self.commands:
            raise Broken(f"{unit} is not part of the build")
        entry = self.commands[unit]
        command = shlex.split(entry["command"])
        target = os.path.join(folder, unit.replace("/", "_") + ".o")
        command[command.index("-o") + 1] = target
        command[command.index("-c") + 1] = source
        if overlay:
            command.insert(1, "-I" + overlay)
        launcher = os.environ.get("CMAKE_CXX_COMPILER_LAUNCHER")
        run(([launcher] if launcher else []) + command, "compiling " + unit, cwd=entry["directory"])
        return target

    def link(self, program, objects=()):
        compiler = shlex.split(self.commands[TESTS[0]]["command"])[0]
        library = os.path.join(self.build, "libcotangent.a")
        run([compiler, *self.tests, *objects, library, "-lz", "-pthread", "-o", program], "linking")
        return program

    def is_green(self, program, op):
        """Whether the op's suite passes. A crash or a hang is red too."""
        try:
            done = subprocess.run([program, CASE, "-c", op], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=TIMEOUT, text=True, errors="replace", cwd=self.work)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode == 0 and not re.search(r"All tests passed \(\d+ assertion", done.stdout):
            raise Broken(f"no test ran for op {op}:\n{done.stdout[-500:]}")
        return done.returncode == 0


def try_fault(tree, number, fault):
    """(verdict, seconds, details)."""
    op, file, unit, _, old, new = fault
    start = time.monotonic()
    try:
        with open(os.path.join(ROOT, file), encoding="utf-8") as f:
            text = f.read()
        if text.count(old) != 1:
            raise Broken(f"{file}: the text to change stands there {text.count(old)} times, not once: {old}")
        folder = os.path.join(tree.work, str(number))
        changed = os.path.join(folder, "cotangent", file)
        os.makedirs(os.path.dirname(changed), exist_ok=True)
        with open(changed, "w", encoding="utf-8") as f:
            f.write(text.replace(old, new))
        source = os.path.join(ROOT, unit) if unit else changed
        program = tree.link(os.path.join(folder, "ct_fault"), [tree.compile(unit or file, source, folder, folder)])
        green = tree.is_green(program, op)
        os.remove(program)
        return ("SURVIVED" if green else "caught"), time.monotonic() - start, ""
    except Broken as error:
        return "ERROR", time.monotonic() - start, str(error)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, metavar="N", help="only fault number N")
    parser.add_argument("--jobs", type=int, metavar="N", default=os.cpu_count() or 1)
    parser.add_argument("--build", metavar="FOLDER", default=os.path.join(ROOT, "build", "mutation"))
    parser.add_argument("--list", action="store_true", help="list the faults and stop")
    options = parser.parse_args()
    chosen = {n: f for n, f in enumerate(FAULTS, 1) if options.only in (None, n)}
    if not chosen:
        parser.error(f"--only: there are faults 1 to {len(FAULTS)}")
    if options.list:
        for n, (op, file, _, what, _, _) in chosen.items():
            print(f"{n:3} {op:18} {file:45} {what}")
        return 0

    jobs = max(1, options.jobs)
    try:
        print("building the library and the conformance suite at -O1", flush=True)
        tree = Tree(options.build, jobs)
        program = tree.link(os.path.join(tree.work, "ct_baseline"))
        ops = sorted({f[0] for f in chosen.values()})
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            red = [op for op, green in zip(ops, pool.map(lambda op: tree.is_green(program, op), ops)) if not green]
        if red:
            raise Broken("red without any fault: " + ", ".join(red))
        print(f"green without faults: {len(ops)} ops", flush=True)
    except Broken as error:
        print(error, file=sys.stderr)
        return 1

    count = {"caught": 0, "SURVIVED": 0, "ERROR": 0}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda item: try_fault(tree, *item), chosen.items())
        for (n, (op, file, _, what, _, _)), (verdict, seconds, details) in zip(chosen.items(), results):
            count[verdict] += 1
            print(f"{n:3} {verdict:8} {seconds:5.0f} s  {op:18} {file:45} {what}", flush=True)
            if details:
                print(details, flush=True)
    errors = f", {count['ERROR']} that could not be tried" if count["ERROR"] else ""
    print(f"{count['caught']} caught, {count['SURVIVED']} survived{errors}")
    return 0 if count["caught"] == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
