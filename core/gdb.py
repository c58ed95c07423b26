"""gdb shows tensors, shapes, handles and lists by what they hold:

    (gdb) source core/gdb.py
    (gdb) print x
    $1 = f32[2, 3] on cpu, strides [3, 1], requires grad = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}

g++ leaves out of a program's debug information what a library defines; -femit-class-debug-always keeps it (clang++:
-fstandalone-debug).
"""
import itertools
import struct

import gdb

MOST = 32  # elements of a tensor that are read

# How an element's bytes are read: by struct, or for bf16 as the upper half of an f32.
FORMATS = {"f32": "f", "f64": "d", "f16": "e", "bf16": "bf16", "i64": "q", "i32": "i", "u8": "B", "bool": "?"}


def numbers(dims):
    """The values of a ct::Dims (Shape, Strides)."""
    data = dims["data_"]["_M_elems"]
    return [int(data[i]) for i in range(int(dims["size_"]))]


def element(raw, kind):
    if kind == "bf16":
        kind, raw = "f", b"\0\0" + raw
    return struct.unpack("<" + kind, raw)[0]


class TensorPrinter:
    def __init__(self, value):
        impl = value["impl_"]["object_"]
        self.impl = impl.dereference() if int(impl) else None

    def to_string(self):
        if self.impl is None:
            return "undefined tensor"
        if not self.impl.type.fields():
            return "tensor, of which this program's debug information says nothing (-femit-class-debug-always)"
        device = self.impl["storage"]["object_"]["device_"]
        kind = str(device["type"]).split("::")[-1]
        where = kind if kind == "cpu" else f"{kind}:{int(device['index'])}"
        text = f"{self.dtype()}{numbers(self.impl['shape'])} on {where}, strides {numbers(self.impl['strides'])}"
        if int(self.impl["offset"]):
            text += f", offset {int(self.impl['offset'])}"
        if self.impl["requires_grad"]:
            text += ", requires grad"
        return text

    def dtype(self):
        return str(self.impl["dtype"]).split("::")[-1].replace("boolean", "bool")

    def children(self):
        if self.impl is None or not self.impl.type.fields() or "cuda" in str(self.impl["storage"]["object_"]["device_"]["type"]):
            return  # a debugger of the host reads no GPU's memory
        kind, offset = FORMATS[self.dtype()], int(self.impl["offset"])
        size = 2 if kind == "bf16" else struct.calcsize(kind)
        base = int(self.impl["storage"]["object_"]["data_"])
        shape, strides = numbers(self.impl["shape"]), numbers(self.impl["strides"])
        for n, index in enumerate(itertools.product(*map(range, shape))):
            if n == MOST:
                yield "...", f"{int(self.impl['numel']) - MOST} more"
                return
            at = base + size * (offset + sum(i * s for i, s in zip(index, strides)))
            raw = gdb.selected_inferior().read_memory(at, size).tobytes()
            yield str(n), str(element(raw, kind))

    def display_hint(self):
        return "array"


class DimsPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return str(numbers(self.value))


class InlineVectorPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return f"{int(self.value['size_'])} elements"

    def children(self):
        for i in range(int(self.value["size_"])):
            yield str(i), self.value["data_"][i]

    def display_hint(self):
        return "array"


class RefPrinter:
    def __init__(self, value):
        self.object = value["object_"]

    def to_string(self):
        if not int(self.object):
            return "null"
        target = self.object.dynamic_type.target()
        count = f", {int(self.object['count_']['_M_i'])} handles" if target.fields() else ""
        return f"{target.name} at {int(self.object):#x}{count}"


def find(value):
    name = gdb.types.get_basic_type(value.type).name or ""
    for prefix, printer in (("ct::Tensor", TensorPrinter), ("ct::Dims", DimsPrinter), ("ct::Ref<", RefPrinter),
                            ("ct::InlineVector<", InlineVectorPrinter)):
        if name == prefix or prefix.endswith("<") and name.startswith(prefix):
            return printer(value)
    return None


import gdb.types  # noqa: E402  after gdb itself

find.name = "cotangent"
gdb.pretty_printers[:] = [p for p in gdb.pretty_printers if getattr(p, "name", "") != "cotangent"] + [find]
