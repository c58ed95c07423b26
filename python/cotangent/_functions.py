"""Makes functions of the registry's records, which cotangent/ops.py holds.

An op takes its inputs in order, or by name, and then its attributes. NumPy's arrays and PyTorch's tensors may stand for
inputs, and numbers where there is a tensor beside them; an optional input may be left out. Attributes that come as
.height and .width are one argument, a number or a pair. The op itself, with its records, is function.op.
"""
import inspect

from . import _core

# What an attribute is where it is left out: what C++ has in the headers of the ops (check.python compares), or where
# nothing stands there, what an op does without it.
_DEFAULTS = {
    "p": 0, "q": 0, "draw": None, "stride": 1, "padding": 0, "padding_end": 0, "dilation": 1, "groups": 1, "kernel": 0,
    "size": 0, "image": 0, "factor_height": 0.0, "factor_width": 0.0, "adaptive": False, "ceil_mode": False,
    "count_include_pad": True, "divisor_override": 0, "linear": False, "align_corners": False, "dropout_p": 0.0,
    "causal": False, "causal_offset": 0, "reduction": "mean", "ignore_index": -100, "label_smoothing": 0.0,
    "chunk_rows": 0, "eps": 1e-5, "converts": False, "y": _core.f32, "dtype": _core.f32, "keepdim": False,
    "number": 0.0, "reverse": False, "relu": False, "right": False, "descending": False, "padding_idx": 0,
    "padded": False, "value": 0, "replacement": False, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "offset": 0,
    "axis1": -2, "axis2": -1,
}
_DEFAULTS_OF_OPS = {"rms_norm.eps": 1e-6, "add_rms_norm.eps": 1e-6}
_TYPED_DEFAULTS = {("axes", "int"): 1, ("axes", "dims"): (), ("scale", "float"): 1.0}

# Outputs that are there for the gradient. A function does not give them; function.op does.
_KEPT_FOR_GRADIENTS = {"logsumexp", "statistics", "weights", "batch_mean", "batch_var", "mean", "rstd", "trace", "wide",
                       "dx", "dweight"}


class _Attribute:
    """An argument of an op's function, and the fields of the op's attributes that it fills."""

    def __init__(self, op, name, fields):
        self.name, self.fields = name, fields
        first = fields[0]
        usual = _DEFAULTS.get(name, _TYPED_DEFAULTS.get((name, first["type"]), inspect.Parameter.empty))
        self.default = _DEFAULTS_OF_OPS.get(f"{op.name}.{name}", usual)
        self.kind = first["choices"].replace(" ", " | ") if first["type"] == "choice" else first["type"]
        if first["type"] == "choice" and self.default not in first["choices"].split():
            self.default = first["choices"].split()[0]
        if len(fields) > 1:
            self.kind = "int or pair"

    def fill(self, op, value, attributes):
        if len(self.fields) == 1:
            attributes[self.fields[0]["name"]] = value
            return
        pair = value if isinstance(value, (tuple, list)) else (value, value)
        if len(pair) != 2:
            raise _core.ValueError(f"[{op}] {self.name} has {len(pair)} values; a number or a pair is wanted")
        for field, one in zip(self.fields, pair):
            attributes[field["name"]] = one


def attributes_of(op):
    """The arguments that stand for the op's attributes."""
    groups = {}
    for field in op.attributes:
        outer, _, inner = field["name"].rpartition(".")
        groups.setdefault(outer if inner in ("height", "width") and outer else inner, []).append(field)
    return [_Attribute(op, name, fields) for name, fields in groups.items()]


def _signature(op, attributes):
    kinds = inspect.Parameter
    parameters, optional = [], False  # what stands behind an optional input is asked for by the op itself
    for record in op.inputs:
        optional = optional or record["optional"]
        parameters.append(kinds(record["name"], kinds.VAR_POSITIONAL if record["rest"] else kinds.POSITIONAL_OR_KEYWORD,
                                default=None if optional else kinds.empty))
    named = optional or op.inputs[-1]["rest"]
    for attribute in sorted(attributes, key=lambda a: a.default is not kinds.empty):
        parameters.append(kinds(attribute.name, kinds.KEYWORD_ONLY if named else kinds.POSITIONAL_OR_KEYWORD,
                                default=attribute.default))
    return inspect.Signature(parameters)


def _document(op, attributes):
    lines = [op.formula, "", "Inputs: " + ", ".join(
        record["name"] + (" (optional)" if record["optional"] else " ..." if record["rest"] else "")
        for record in op.inputs)]
    if attributes:
        lines.append("Attributes: " + ", ".join(f"{a.name} ({a.kind})" for a in attributes))
    outputs = ", ".join(op.outputs[i] for i in outputs_of(op))
    lines.append(f"Outputs: {outputs}" + ("" if op.differentiable else "; no gradient flows back"))
    return "\n".join(lines)


def outputs_of(op):
    """The numbers of the outputs that the op's function gives."""
    return [i for i, name in enumerate(op.outputs) if name not in _KEPT_FOR_GRADIENTS]


def function_of(op):
    """The function of an op, which gives its output, or a tuple of several. What serves gradients alone is left out."""
    attributes = attributes_of(op)
    signature = _signature(op, attributes)
    names = [record["name"] for record in op.inputs]
    rest = op.inputs[-1]["rest"]
    defaults = {}
    for attribute in attributes:
        if attribute.default is not inspect.Parameter.empty:
            attribute.fill(op.name, attribute.default, defaults)
    public = outputs_of(op)
    bare = not any(a.default is inspect.Parameter.empty for a in attributes)

    def function(*args, **kwargs):
        if bare and not kwargs and (rest or len(args) == len(names)):
            results = op(args, defaults)  # the common case, without a look at the signature
        else:
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"[{op.name}] {error}; it is {op.name}{signature}") from None
            values = given.arguments
            filled = dict(defaults)
            for attribute in attributes:
                if attribute.name in values:
                    attribute.fill(op.name, values[attribute.name], filled)
            inputs = [values.get(name) for name in names]
            if rest:
                inputs[-1:] = values.get(names[-1], ())
            results = op(inputs, filled)
        if len(public) < len(op.outputs):
            results = [results[i] for i in public]
        return results[0] if len(results) == 1 else tuple(results)

    function.__name__ = function.__qualname__ = op.name
    function.__module__ = "cotangent.ops"
    function.__doc__ = _document(op, attributes)
    function.__signature__ = signature
    function.op = op
    return function
