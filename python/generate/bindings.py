"""Writes the C++ that binds the public functions, layers, optimizers and schedules, with their own defaults and names.

   usage: bindings.py SOURCE_DIR UMBRELLA_OF_OPS OUT_DIR

A type that is new among the parameters of a public function is taught to `reader` below, or the build fails and names it.
"""
import dataclasses
import json
import pathlib
import re
import sys

from headers import Function, Headers, Parameter

# Functions that are not for Python, or bound by hand because they are about memory, text or settings of a process.
LEFT_OUT = {"dispatch", "dispatch_inplace", "from_blob", "from_memory", "check_list_length", "to_string", "set_print_options",
            "print_options", "autocast_enabled", "autocast_dtype", "compared", "index_put", "kl_divergence", "resolve_shape",
            "view_strides", "tensor", "assigned", "describe", "element_name"}
UNREAD = {"GeneratorState", "TensorIndices", "DType source", "Strides"}  # types of overloads that are C++'s alone
SCALARS = {"Integer": "std::int64_t", "Real": "double", "Flag": "bool", "std::string_view": "std::string"}
# Types of C++: the kind that tells overloads apart, and the type in Python.
TYPES = {"std::int64_t": ("integer", "int"), "int": ("integer", "int"), "double": ("real", "float"), "bool": ("flag", "bool"),
         "std::string": ("any", "str"), "Scalar": ("number", "Number"), "Dims": ("dims", "int | Sequence[int]"),
         "Shape": ("dims", "int | Sequence[int]"), "DType": ("dtype", "DTypeLike"), "Device": ("any", "str"),
         "Size2d": ("any", "int | Sequence[int]"), "ConvPadding": ("any", "int | Sequence[int] | str"),
         "OptionalSize2d": ("any", "int | Sequence[int] | None"), "OptionalScale2d": ("any", "float | Sequence[float] | None"),
         "RotaryScaling": ("any", "RotaryScaling"), "RopeScaling": ("any", "dict[str, Any]"),
         "std::vector<std::int64_t>": ("any", "Sequence[int]"), "std::array<double, 3>": ("any", "Sequence[float]"),
         "std::function<bool(const Tensor& ids)>": ("any", "Any"), "Tensor": ("tensor", "TensorLike"),
         "std::uint64_t": ("integer", "int"), "char": ("any", "str"), "StateDict": ("any", "Mapping[str, Any]"),
         "std::vector<double>": ("any", "Any"), "std::vector<std::string>": ("any", "Sequence[str]"),
         "std::vector<Tensor>": ("any", "Any"), "TensorsFunction": ("any", "Callable[[list[Tensor]], Tensor]"), "nn::Module": ("module", "Any"), "Optimizer": ("any", "Optimizer"), "KvCache*": ("any", "KvCache | None"),
         "TensorList": ("tensors", "Sequence[TensorLike]"), "Generator": ("any", "Generator"), "LayerNorm": ("any", "Module")}
RESULTS = {"Tensor": "Tensor", "bool": "bool", "void": "None", "double": "float", "std::vector<Tensor>": "tuple[Tensor, ...]",
           "std::array<Tensor, 2>": "tuple[Tensor, Tensor]"}
# Result types of members and settings, which are no functions of tensors.
MORE_RESULTS = {"std::int64_t": "int", "int": "int", "std::string": "str", "std::string_view": "str", "char*": "str", "DType": "DType",
                "StateDict": "dict[str, Any]", "std::vector<std::vector<Tensor>>": "list[list[Tensor]]", "std::vector<double>": "list[float]", "std::vector<std::int64_t>": "list[int]",
                "std::vector<std::string>": "list[str]", "std::pair<Tensor, Tensor>": "tuple[Tensor, Tensor]",
                "std::pair<Tensor, std::vector<std::string>>": "tuple[Tensor, list[str]]"}
# Classes and namespaces bound member by member: the part of the module, a class or namespace::, and its members, as NAME=C++'S
# where Python has another name; * is all there are. A property ends with *; `state` is state_dict() and load_state_dict(); +
# is a class that is there already.
PLAIN = """
+_nn ct::nn::Module num_parameters _child=child _remove=remove _get=get zero_grad _requires_grad_=requires_grad _kind=kind _describe=settings
_init ct::nn::init:: *
+_core ct::Tensor ndim=dim* dtype* is_cuda* nbytes* is_leaf*
_core ct:: version manual_seed num_threads set_num_threads cuda_is_available cuda_device_count grad_enabled _backward=backward
_grad ct:: anomaly_enabled set_anomaly value_and_grad vjp jvp jacobian hessian
_grad ct::Explanation __str__=to_string __repr__=to_string to_dot to_html bytes*
_optim ct::optim::Optimizer _step=step zero_grad state _params=params _lr=lr _set_lr=set_lr _group_count=group_count
_optim ct::optim::LRScheduler step time* last_lr* get_last_lr=last_lr lr_at state
_optim ct::optim::GradScaler scale unscale_ step get_scale is_enabled=enabled state
_optim ct::optim::Ema update updates* apply restore applied* averages* state
+_optim ct::optim::LBFGS iterations* evaluations* state
+_optim ct::optim::ReduceLROnPlateau best* state
_optim ct::optim:: clip_grad_norm_ clip_grad_value_
_data ct::data::RandomSampler __len__=size order
_data ct::data::WeightedRandomSampler __len__=size order
_data ct::data::DistributedSampler __len__=size order
_data ct::data::ImageDataset __len__=size _get=get images* labels* classes*
_data ct::data::CsvTable __len__=rows columns* text numbers classes
_data ct::data:: stack_examples read_idx read_csv _idx=idx _cifar10=cifar10
_text ct::text::Tokenizer vocab_size* encode beginning save
_text ct::text::CharTokenizer
_text ct::text::BpeTokenizer find_token
_models ct::nn::models::KvCache length* capacity* batch* nbytes* truncate
+_models ct::nn::models::LanguageModel hidden loss generate make_cache
_io ct::io:: load save load_npy load_npz save_npy
"""
PARTS = {"_init": "Initial values of parameters, in place", "_grad": "Gradients and modes", "_optim": "Optimizers", "_data": "Batches", "_text": "Tokenizers",
         "_models": "Language models", "_io": "Files"}
GATHERED = {"empty", "zeros", "ones", "rand", "randn", "reshape", "view", "expand", "permute", "repeat", "tile", "flip",
            "einsum", "meshgrid"}
METHODS = {"forward", "reset_parameters", "add_forward", "forward_with_weights"}
NOT_LAYERS = {"Lambda", "Sequential", "ModuleList", "ModuleDict", "ParameterList"}


WORDS = {"ct::Gelu": ["none", "tanh"]}  # PyTorch's, where ours differ


DEFAULTS = {"true": "True", "false": "False", "{}": "None", "std::nullopt": "None", "nullptr": "None", "1.0 / 3": "0.3333333333333333",
            "INT64_MAX": "9223372036854775807"}


class Teach(Exception):
    pass


class Binder:
    def __init__(self, headers):
        self.headers = headers
        self.named = {}     # results of several tensors
        self.plain = set()  # classes that are bound as they are

    # ---- types --------------------------------------------------------------------------------------------
    def full(self, scope, name):
        """The full name of a class or enum that is meant by a name used in this namespace."""
        parts = scope.split("::")
        for n in range(len(parts), -1, -1):
            found = "::".join([*parts[:n], name])
            if found in self.headers.classes or found in self.headers.enums:
                return found
        return None

    def is_options(self, scope, kind):
        found = self.full(scope, kind)
        return found if found and re.search(r"Options$|Config$|Masks$", found) else None

    @staticmethod
    def named_reader(scope, p):
        """The reader of a parameter that is chosen by its name, whatever its type; None if its type chooses."""
        sized = scope == "ct::data" and p.name == "size"
        return "read_size" if sized else {"path": "read_path", "folder": "read_path", "params": "read_params"}.get(p.name)

    def reader(self, scope, p, i):
        """C++ that reads place i as this parameter."""
        if p.name == "self":
            return f"v.object<{p.type}>({i})" if p.type else f"nb::borrow<nb::capsule>(v[{i}])"  # where it is constructed
        if read := self.named_reader(scope, p):
            return f"{read}(v.argument({i}), v[{i}])"
        kind = SCALARS.get(p.type, p.type)
        full = self.full(scope, kind)
        default, bare = p.default, re.sub(r"std::optional<(.*)>", r"\1", kind)
        fixed = {"TensorList": f"v.tensors({i})" if default is None else f"v.given({i}) ? v.tensors({i}) : std::vector<Tensor>()", "Generator": f"v.generator({i})",
                 "KvCache*": f"v.pointer<nn::models::KvCache>({i})",
                 "std::optional<LayerNorm>": f"v.pointer<nn::LayerNorm>({i}) ? std::optional(v.object<nn::LayerNorm>({i})) : std::nullopt",
                 "std::optional<Tensor>": f"v.given({i}) && !v[{i}].is_none() ? std::optional<Tensor>(v.tensor({i})) : std::nullopt"}
        if kind == "Tensor":
            return f"v.object<Tensor>({i})" if p.reference else f"v.{'tensor' if default is None else 'optional_tensor'}({i})"
        if kind in fixed:
            return fixed[kind]
        if full in self.headers.enums or full and self.aggregate(full):
            kind = full
        elif full and (full in self.plain or full == "ct::nn::Module" or "Module" in self.headers.classes[full].bases):
            return f"v.object<{full}>({i})"
        elif bare not in TYPES:
            raise Teach(f"a parameter of type {p.type} ({p.name})")
        if default is None:
            return f"v.get<{kind}>({i})"
        value = f"{kind}{default}" if default.startswith("{") else f"{kind}({self.cpp(scope, default)})"
        return f"v.get{'_unless_none' if kind in ('Dims', 'Shape') or default == '{}' else ''}<{kind}>({i}, {value})"

    def cpp(self, scope, default):
        """A default's C++, with the full name of an enum."""
        owner, colons, word = default.rpartition("::")
        full = self.full(scope, owner) if colons else None
        return f"{full}::{word}" if full else default

    def aggregate(self, full):
        """The fields of a struct of tensors, or of such structs."""
        made = self.headers.classes.get(full)
        if made is None or made.functions or not made.fields or made.bases:
            return None
        simple = all(f.type in ("Tensor", "std::vector<Tensor>") or (self.full(made.scope, f.type) and self.aggregate(self.full(made.scope, f.type)))
                     for f in made.fields)
        return made.fields if simple else None

    def kind(self, p):
        bare = re.sub(r"std::optional<(Scalar|DType)>", r"\1", SCALARS.get(p.type, p.type))
        return "any" if bare == "Tensor" and p.reference or p.type == "DType" else TYPES.get(bare, ("any", ""))[0]

    def readable(self, scope, field):
        try:
            self.reader(scope, dataclasses.replace(field, default="{}"), 0)
        except Teach:
            return False
        return True

    # ---- one signature --------------------------------------------------------------------------------------
    def slots(self, function):
        """The parameters with options spread out: (parameter, its options or None)."""
        several = sum(bool(self.is_options(function.scope, p.type)) for p in function.parameters) > 1
        for p in function.parameters:
            options = self.is_options(function.scope, p.type)
            for field in self.headers.classes[options].fields if options else ():  # tgt_masks, memory_masks: their names in front
                yield dataclasses.replace(field, name=f"{p.name.rpartition('_')[0]}_{field.name}" if several else field.name), options
            if not options:
                yield p, None

    def body(self, function):
        """(C++ that reads the arguments, C++ of each argument of the call)."""
        statements, arguments, i = [], [], 0
        for p in function.parameters:
            options = self.is_options(function.scope, p.type)
            if not options:
                arguments.append(self.reader(function.scope, p, i))
                if p.name == "params" and function.result:  # of a function a tensor is one; a class refuses it, as no list
                    arguments[-1] = arguments[-1][:-1] + ", true)"
                i += 1
                continue
            owner = self.headers.classes[options]
            name = f"options{i}"
            reference = [f for f in owner.fields if f.reference]
            start = ", ".join(f".{f.name} = v.generator({i + owner.fields.index(f)})" for f in reference)
            statements.append(f"{options} {name}{{{start}}};")
            for field in owner.fields:
                if not field.reference:
                    if field.type == "Tensor":
                        statements.append(f"if (v.given({i})) {name}.{field.name} = v.tensor({i});")
                    else:
                        statements.append(f"v.put({i}, {name}.{field.name});")
                i += 1
            arguments.append(name)
        for n, argument in enumerate(arguments):
            if argument.startswith(("v.", "read_")):  # before the interpreter is free for others
                reference = "&" if argument.startswith("v.object<") or ".generator" in argument else ""
                statements.append(f"auto{reference} a{n} = {argument};")
                arguments[n] = f"a{n}"
        return statements, arguments

    def overload(self, function, call=None, gathers=False):
        """C++ of an Overload; `call` makes the C++ call of its arguments."""
        slots = [p for p, _ in self.slots(function)]
        statements, arguments = self.body(function)
        rows = ", ".join(f'{{"{p.name}", Kind::{self.kind(p)}, {str(p.default is None).lower()}}}' for p in slots)
        gather = next((n for n, p in enumerate(slots) if self.kind(p) in ("dims", "tensors")), -1) if gathers else -1
        return rows, f"[](const Values& v) -> nb::object {{ {' '.join(statements)} {(call or call_of)(arguments, function)} }}", gather

    # ---- Python's side --------------------------------------------------------------------------------------
    def python_default(self, scope, p):
        d = p.default
        if d is None:
            return None
        kind = SCALARS.get(p.type, p.type)
        full = self.full(scope, kind)
        if full in self.headers.enums:
            return repr(WORDS.get(full, words := self.headers.enums[full])[words.index(d.rpartition("::")[2])])
        if kind in ("Generator", "Device"):
            return "None" if kind == "Generator" else repr(d)
        if d[0] in '"{' and d != "{}":
            return repr(d[1:-1]) if d[0] == '"' else f"({d[1:-1]})"
        d = DEFAULTS.get(d, re.sub(r"(\d)\.?f$", r"\1", d).removeprefix("DType::"))
        return d + ".0" if kind == "double" and re.fullmatch(r"-?\d+", d) else d

    def python_type(self, scope, p):
        kind = SCALARS.get(p.type, p.type)
        full = self.full(scope, kind)
        if full in self.headers.enums:
            return "Literal[" + ", ".join(repr(w) for w in WORDS.get(full, self.headers.enums[full])) + "]"
        if full and self.aggregate(full):
            return "Sequence[TensorLike | None]"
        bare = re.sub(r"std::optional<(.*)>", r"\1", kind)
        found = "Any" if self.named_reader(scope, p) else "Tensor" if p.reference and kind == "Tensor" else TYPES.get(bare, ("", full and full.rpartition("::")[2] or "Any"))[1]
        optional = kind != bare or self.python_default(scope, p) == "None"
        return f"{found} | None" if optional else found

    def parameters(self, function):
        """(name, Python's type, Python's default) of each argument."""
        made = []
        for p, options in self.slots(function):
            scope = options.rpartition("::")[0] if options else function.scope
            made.append((p.name, self.python_type(scope, p), self.python_default(scope, p)))
        return made

    def result_type(self, scope, result, more={}):
        kind = bare(result)
        full = self.full(scope, kind)
        if full and self.aggregate(full) or more and full in self.plain:
            return kind
        return RESULTS.get(kind) or more.get(kind)

    def note_result(self, scope, result):
        full = self.full(scope, result)
        fields = full and self.aggregate(full)
        if fields:
            for f in fields:
                self.note_result(full.rpartition("::")[0], f.type)
            self.named.setdefault(full, fields)

    @staticmethod
    def signature(forms):
        """One signature of several: arguments that all forms want are required, others may be left out."""
        longest = max(forms, key=len)
        order = [*longest, *(a for form in forms for a in form if a[0] not in {b[0] for b in longest})]
        order = list({a[0]: a for a in order}.values())
        parts, optional = [], False
        for name, _, default in order:
            needed = all(any(a[0] == name and a[2] is None for a in form) for form in forms) and not optional
            optional = optional or not needed
            parts.append(name if needed else f"{name}={default or 'None'}")
        return f"({', '.join(parts)})"


def bare(result):
    return result.replace("const ", "").rstrip("& ")


def quote(text):
    return json.dumps(text, ensure_ascii=False)


class Writer:
    """The definitions of one C++ file."""

    def __init__(self):
        self.lines, self.count = [], 0

    def definition(self, name, signature, doc, overloads, op=None):
        """Names of a FunctionDef that this makes."""
        self.count += 1
        me, rows = f"d{self.count}", []
        for n, (slots, run, gathers) in enumerate(overloads):
            self.lines.append(f"constexpr Slot {me}s{n}[] = {{{slots}}};" if slots else f"constexpr std::span<const Slot> {me}s{n};")
            rows.append(f"{{{me}s{n}, {run}, {gathers}}}")
        self.lines.append(f"const Overload {me}o[] = {{{', '.join(rows)}}};")
        self.lines.append(f"const FunctionDef {me}{{{quote(name)}, {quote(op or name)}, {quote(signature)}, {quote(doc)}, {me}o}};")
        return me


HEAD = """// Written by python/generate/bindings.py of the public headers.
#include "optimizers_internal.h"

namespace ct::python {
namespace {
"""


def write(path, writer, **binders):
    """A file of definitions, and of functions of the module that have these lines."""
    made = "".join(f"void {name}(nb::module_& m) {{\n" + "\n".join(rows) + "\n}\n" for name, rows in binders.items())
    path.write_text(HEAD + "\n".join(writer.lines) + "\n}  // namespace\n\n" + made + "\n}  // namespace ct::python\n")


def call_of(arguments, function):
    """C++ of a call whose result goes to Python; of one in place, the object itself."""
    callee = f"{arguments[0]}.{function.name}({', '.join(arguments[1:])})" if function.member else \
        f"{function.scope}::{function.name}({', '.join(arguments)})"
    if function.result == "void" or function.result.endswith("&"):
        return f"unlocked([&] {{ {callee}; }}); return {'nb::none()' if function.result == 'void' else 'nb::borrow(v[0])'};"
    return f"return give(unlocked([&] {{ return {callee}; }}));"


def of_object(function, itself):
    """A member function, whose first parameter is the object."""
    return dataclasses.replace(function, parameters=[itself, *function.parameters], member=True)


def functions(binder, out):
    """functions.cpp, and what it publishes: (name, forms, doc, is a method, is a function)."""
    headers, writer, published = binder.headers, Writer(), []
    groups = {}
    for f in binder.public:
        usable = f.scope in ("ct",) and f.name not in LEFT_OUT and not any(p is None or p.type in UNREAD for p in f.parameters)
        if usable and binder.result_type(f.scope, f.result):
            groups.setdefault(f.name, []).append(f)
    tensor = headers.classes["ct::Tensor"]
    members = {f.name for f in tensor.functions}
    for f in tensor.functions:
        plain = f.result in ("Tensor", "Tensor&", "std::vector<Tensor>", "bool") and (f.const or f.result == "Tensor&")
        others = [g for g in groups.get(f.name, ()) if not g.member]
        second = {g.parameters[1].type for g in others if len(g.parameters) > 1}
        new = not others or f.parameters and "vector" in f.parameters[0].type and f.parameters[0].type not in second
        mine = plain and new and not f.name.startswith(
            ("is_", "to", "defined", "requires", "set_", "index", "pin_", "begin", "end", "detach", "grad"))
        if mine and not any(p is None or p.type in UNREAD or p.type.startswith("Rest") for p in f.parameters):
            groups.setdefault(f.name, []).append(of_object(f, Parameter("Tensor", "x", None, f.result.endswith("&"))))
    groups["where", "method"] = [of_object(f, Parameter("Tensor", "x", None, False)) for f in tensor.functions
                                 if f.name == "where"]  # its tensor is not the function's first
    for name, group in groups.items():
        only_function, name = name == "where", name[0] if isinstance(name, tuple) else name
        try:
            definition, one = defined(binder, writer, name, group, gathers=name in GATHERED)
        except Teach as what:
            sys.exit(f"bindings.py: {name} has {what}, which `reader` does not know")
        first = group[0].parameters[0] if group[0].parameters else Parameter("", "", None, False)
        of_tensor = group[0].member or first.type == "Tensor" and (name in members or first.name in ("x", "a", "t"))
        published.append({**one, "definition": definition, "gathers": name in GATHERED,
                          "method": not only_function and of_tensor,
                          "function": not group[0].member or not name.endswith("_") and name != "where"})
    rows = [f"  publish(all, tensor, {p['definition']}, {str(p['function']).lower()}, {str(p['method']).lower()});"
            for p in published]
    rows += [f'  m.attr("{full.rpartition("::")[2]}") = class_of(static_cast<const {full}*>(nullptr));' for full in binder.named]
    head = ['  nb::object tensor = m.attr("Tensor"); auto all = m.def_submodule("_functions", "The public functions of C++.");']
    write(out / "functions.cpp", writer, bind_functions=head + rows)
    return published


def defined(binder, writer, name, group, op=None, gathers=False):
    """C++ that defines a function with all its overloads, and a dict of what is published of it."""
    forms, doc = [], next((f.doc for f in group if f.doc), "")
    for f in group:
        forms.append((binder.parameters(f), binder.result_type(f.scope, f.result, MORE_RESULTS)))
        binder.note_result(f.scope, f.result)
    overloads = [binder.overload(f, gathers=gathers) for f in group]
    definition = writer.definition(name, binder.signature([form for form, _ in forms]), doc, overloads, op)
    return definition, {"name": name, "forms": forms, "doc": doc}


def member(function, kind):
    return of_object(dataclasses.replace(function, result=bare(function.result)), Parameter(kind, "self", None, True))


def begun(binder, writer, part, full, base=""):
    """The C++ that binds a class which its constructors make, and what is published of it."""
    made = binder.headers.classes[full]
    makers = [readable(binder, f) for f in made.functions if f.name == made.name and not f.result and not copies(f, made.name)]
    makers = [f for f in makers if f]
    if any(f.parameters and f.parameters[0].type == "Shape" for f in makers):  # of which Python's takes an int, too
        makers = [f for f in makers if f.parameters[0].type == "Shape"]

    def construct(arguments, function):
        return f"new ({arguments[0]}.data()) {full}({', '.join(arguments[1:])}); return nb::none();"
    makers, maker = [of_object(f, Parameter("", "self", None, True)) for f in makers], "nullptr"
    forms = [binder.parameters(f) for f in makers]
    if makers:
        maker = "&" + writer.definition(made.name, binder.signature([form[1:] for form in forms]), made.doc,
                                        [binder.overload(f, construct) for f in makers])
    return f'bind_class<{full}{base}>({part}, "{made.name}", {quote(made.doc)}, {maker})', \
        {"name": made.name, "doc": made.doc, "forms": [(f, "None") for f in forms], "methods": [], "properties": []}


def readable(binder, function):
    """The function without what has a default and is of a type that Python has not, or None where that is needed."""
    for n, p in enumerate(function.parameters):
        if p is None or not binder.is_options(function.scope, p.type) and not binder.readable(function.scope, p):
            return dataclasses.replace(function, parameters=function.parameters[:n]) if p and p.default else None
    return function


def plain(binder, out):
    """plain.cpp: classes, and functions beside those of tensors, as PLAIN has them."""
    headers, writer, new, late, published = binder.headers, Writer(), [], [], []
    lines = [line.split() for line in PLAIN.split("\n") if line]
    binder.plain |= {full for _, full, *_ in lines if not full.endswith("::")}

    def found(functions, name):
        said = {f.doc: f.name for f in reversed(functions)}  # of several that share it the first has the text
        group = [dataclasses.replace(f, doc=f.doc if said[f.doc] == name else "")
                 for f in (readable(binder, f) for f in functions if f.name == name) if f]
        if not group:
            sys.exit(f"bindings.py: {name} of PLAIN is not there, or of types that `reader` does not know")
        return group

    for part, full, *names in lines:
        scope, _, own = full.rpartition("::")
        rows, part = (late, part[1:]) if part[0] == "+" else (new, part)
        module = "m" if part == "_core" else f'nb::module_(m.attr("{part}"))'
        made = headers.classes.get(full)
        if names == ["*"]:
            names = list(dict.fromkeys(f.name for f in headers.functions if f.scope == scope))
        names = [n for name in names for n in (["state_dict", "load_state_dict"] if name == "state" else [name])]
        if rows is late:
            begin, entry = f'nb::borrow<nb::class_<{full}>>({module}.attr("{own}"))', {"name": own, "forms": [], "methods": [], "properties": []}
        elif made:
            base = [f", {b}" for b in (binder.full(scope, b) for b in split_bases(made.bases)) if b in binder.plain]
            begin, entry = begun(binder, writer, module, full, "".join(base))
        if made:
            rows.append(f"  {{ auto c = {begin};")
            published.append({**entry, "part": part})
        for name in names:
            is_property, (name, *other) = name[-1] == "*", name.rstrip("*").split("=")
            theirs = other[0] if other else name
            if made and (field := next((f for f in made.fields if f.name == theirs), None)):
                group = [Function(scope, theirs, field.type, [], field.doc)]
            else:
                group = found(made.functions if made else [f for f in headers.functions if f.scope == scope], theirs)
            if is_property:
                call, doc = f"self.{theirs}" + ("" if field else "()"), group[0].doc
                rows.append(f'    c.def_prop_ro("{name}", [](const {full}& self) {{ return give({call}); }}, {quote(doc)});')
                entry["properties"].append((name, binder.result_type(scope, group[0].result, MORE_RESULTS), doc))
                continue
            definition, one = defined(binder, writer, name, [member(f, full) for f in group] if made else group, theirs)
            home = f'"cotangent{".nn.init" if part == "_init" else ""}"'
            rows.append(f'  {"c" if made else module}.attr("{name}") = make_function({definition}, {home});')
            (entry["methods"] if made else published).append({**one, "part": part})
        if made:
            rows[-1] += " }"
    parts = [f'  m.def_submodule("{part}", "{doc}");' for part, doc in PARTS.items()]
    write(out / "plain.cpp", writer, bind_plain=parts + new, bind_members=late)
    return published


def layers(binder, out):
    """layers.cpp: each class of ct::nn that is a module with a forward()."""
    headers, writer, rows, published = binder.headers, Writer(), [], []
    by_name = {f.name: f for f in headers.functions if f.scope == "ct"}

    def lineage(made):
        found = [made]
        for base in split_bases(made.bases):
            full = binder.full(made.scope, re.sub(r"<.*", "", base))
            if full and full != "ct::nn::Module":
                found += lineage(headers.classes[full])
        return found

    for full, made in headers.classes.items():
        if made.scope != "ct::nn" or made.template or made.name in NOT_LAYERS:
            continue
        family = lineage(made)
        if not re.search(r"Module|detail::", made.bases) or made.name in ("Parameter", "Buffer"):
            continue
        methods = {}
        for owner in family:
            for f in owner.functions:
                if f.name in METHODS and f.result:
                    methods.setdefault(f.name, f)
        loss = re.search(r"FunctionLoss<(\w+),", made.bases)
        if loss:
            f = by_name[loss[1]]
            methods["forward"] = Function("ct", "forward", "Tensor", [p for p in f.parameters if not binder.is_options("ct", p.type)], f.doc)
        if "forward" not in methods or not any(f.name == made.name for f in made.functions):
            continue
        begin, entry = begun(binder, writer, "m", full, ", nn::Module")
        rows.append(f"  {{ auto c = {begin};")
        for name, f in methods.items():
            definition, one = defined(binder, writer, name, [member(dataclasses.replace(f, scope="ct::nn"), full)], made.name)
            pair = name == "forward" and "forward_with_weights" in methods  # nn.py's forward() gives both, as PyTorch's
            rows.append(f'    c.attr("{"_forward" if pair else name}") = make_function({definition}, "cotangent.nn");')
            if pair:
                one["forms"] = [([*one["forms"][0][0], ("need_weights", "bool", "True")], "tuple[Tensor, Tensor | None]")]
            entry["methods"].append(one)
        rows[-1] += " }"
        published.append(entry)
    write(out / "layers.cpp", writer, bind_layers=rows)
    return published


def split_bases(bases):
    return re.findall(r"[\w:]+(?:<[^<>]*>)?", bases)


def copies(function, name):
    return len(function.parameters) == 1 and function.parameters[0].type == name


def optimizers(binder, out):
    """optimizers.cpp: what is made of parameters, or of an optimizer, and a struct of options."""
    headers, writer, rows, published = binder.headers, Writer(), [], []
    for full, made in headers.classes.items():
        options = f"ct::optim::{made.name}Options"
        if made.scope != "ct::optim" or options not in headers.classes:
            continue
        schedule = "LRScheduler" in made.bases
        first = "optimizer" if schedule or made.name == "ReduceLROnPlateau" else "params"
        if first == "params" and not re.search("Optimizer|Adam", made.bases):
            continue
        if first == "optimizer":
            begin, entry = begun(binder, writer, "m", full, ", ct::optim::LRScheduler" if schedule else "")
            rows.append(f"  {begin[:-1]}, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>());")  # it refers to the optimizer
        else:
            fields = Parameter(made.name + "Options", "options", "{}", False)
            maker = Function("ct::optim", made.name, "", [Parameter("Any", first, None, False), fields], made.doc)
            entry = {"name": made.name, "forms": [([("self", "", None), *binder.parameters(maker)], "None")], "methods": []}
            read = binder.overload(dataclasses.replace(maker, parameters=[fields]), lambda a, _: f"return options_of({a[0]});")
            definition = writer.definition(made.name, binder.signature([binder.parameters(maker)]), made.doc, [read])
            rows.append(f"  bind_optimizer<{full}, {options}>(m, {definition});")
        published.append(entry)
    write(out / "optimizers.cpp", writer, bind_optimizers=rows)
    return published


def options(binder, out):
    """options.h: enums by their words, structs of options by their fields, structs of tensors both ways."""
    headers, lines = binder.headers, []
    for full, words in (headers.enums | WORDS).items():
        if "detail" not in full and "TokenFormat" not in full:
            lines.append(f'inline void read(const Argument& argument, nb::handle value, {full}& to) {{\n'
                         f'  std::uint64_t index = 0;\n  read_choice(argument, value, "{" ".join(words)}", index);\n'
                         f"  to = static_cast<{full}>(index);\n}}")
            lines.append(f"inline nb::object give({full} value) {{\n"
                         f'  return nb::str("{" ".join(words)}").attr("split")()[static_cast<int>(value)];\n}}')
    for full, made in headers.classes.items():
        if re.search(r"(Options|Config|Masks|Scaling)$", full) and "detail" not in full and made.fields \
                and not any(f.reference for f in made.fields):
            fields = [f'Field{{"{f.name}", &{full}::{f.name}}}' for f in made.fields if binder.readable(full, f)]
            lines.append(f"inline auto fields_of(const {full}*) {{\n  return std::tuple{{{', '.join(fields)}}};\n}}")
    for full, fields in binder.named.items():
        name = full.rpartition("::")[2]
        lines.append(f"inline nb::handle class_of(const {full}*) {{\n"
                     f'  static const nb::handle made = make_named("{name}", "{" ".join(f.name for f in fields)}").release();\n'
                     "  return made;\n}")
        lines.append(f"inline nb::object give({full} made) {{\n  return class_of(&made)("
                     + ", ".join(f"give(std::move(made.{f.name}))" for f in fields) + ");\n}")
    for full in headers.classes:
        fields = binder.aggregate(full)
        if fields and "detail" not in full and all(f.type == "Tensor" for f in fields):
            reads = "\n".join(f'  if (nb::len(value) > {i} && !value[{i}].is_none()) read(argument, value[{i}], to.{f.name});'
                              for i, f in enumerate(fields))
            least = sum(f.default is None for f in fields)
            lines.append(f"inline void read(const Argument& argument, nb::handle value, {full}& to) {{\n"
                         f"  if (value.is_none()) return;\n"
                         f"  if (!nb::isinstance<nb::sequence>(value) || nb::isinstance<Tensor>(value) || nb::len(value) < {least} ||"
                         f" nb::len(value) > {len(fields)})\n"
                         f'    argument.refuse(value, "a tuple ({", ".join(f.name for f in fields)})");\n{reads}\n}}')
    (out / "options.h").write_text(
        "#pragma once\n\n// Written by python/generate/bindings.py of the public headers.\n\n#include <tuple>\n\n"
        '#include "call_internal.h"\n\nnamespace ct::python {\n\n' + "\n".join(lines) + """
/// The struct of what was given by name.
template <class Options>
Options options_from(const char* op, const nb::dict& given) {
  const auto read = [&](const auto&... fields) { return read_options<Options>(op, given, fields...); };
  return std::apply(read, fields_of(static_cast<const Options*>(nullptr)));
}
template <class Options>
requires requires(const Options* o) { fields_of(o); }
void read(const Argument& argument, nb::handle value, Options& to) {
  if (!value.is_none() && !nb::isinstance<nb::dict>(value)) argument.refuse(value, "a dict");
  to = value.is_none() ? Options() : options_from<Options>(argument.op, nb::borrow<nb::dict>(value));
}

}  // namespace ct::python
""")


def write_if_changed(folder, made):
    for path in made.iterdir():
        target = folder / path.name
        if not target.exists() or target.read_bytes() != path.read_bytes():
            target.write_bytes(path.read_bytes())


def main():
    root, umbrella, out = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    include = re.compile(r"#include <cotangent/([^>]+)>")
    paths = include.findall(pathlib.Path(umbrella).read_text())
    for page in ("nn/nn.h", "nn/optim/optim.h"):
        paths += include.findall((pathlib.Path(root) / page).read_text())
    paths += ["core/tensor/tensor.h", "ops/loss/reduction.h", "ops/normalization/norm_use.h", "nn/optim/ema.h", "nn/optim/grad_scaler.h"]
    binder = Binder(Headers(root, dict.fromkeys(p for p in paths if not re.search("optim/optim.h$|nn/(profile|capture)/", p))))
    binder.public = list(binder.headers.functions)  # those of tensors, and not these settings
    binder.headers.read(root, ["core/base/version.h", "core/base/rng.h", "core/device/parallel.h", "core/device/device.h", "core/device/stream.h", "autograd/engine.h",
                               "autograd/grad_mode.h", "autograd/functional.h"])
    work = out / "new"
    work.mkdir(parents=True, exist_ok=True)
    made = {"plain": plain(binder, work), "layers": layers(binder, work), "functions": functions(binder, work), "optimizers": optimizers(binder, work)}
    options(binder, work)
    made["named"] = {full.rpartition("::")[2]: [(f.name, RESULTS.get(f.type, f.type)) for f in fields] for full, fields in binder.named.items()}
    (work / "published.json").write_text(json.dumps(made, indent=1))
    write_if_changed(out, work)
    return made


if __name__ == "__main__":
    main()
