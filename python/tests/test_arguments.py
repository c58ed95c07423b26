"""Arguments: PyTorch's names beside ours, None, too many, unknown, doubled ones, and values of a wrong kind, each of
which is an error that names the function, after which the next call is right."""
import inspect
import math
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import cotangent as ct
from beside import ours
from cotangent import data, nn, optim
from cotangent._core import _init as init
from test_functions import ELSEWHERE, PUBLISHED, call, same, table

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3) / 4
Y = X[::-1].copy()
M = np.array([[True, False, True], [False, True, True]])
Q = np.arange(32, dtype=np.float32).reshape(1, 1, 4, 8) / 9
I = np.array([1, 0, 2])  # noqa: E741
S = np.arange(40, dtype=np.float32).reshape(5, 1, 8) / 30


def seeded(f):
    """f after a seed; of a layer its parameters, or what it does with numbers."""
    def run(*args, **named):
        ct.manual_seed(3)
        made = f(*args, **named)
        if isinstance(made, nn.Module):
            values = list(dict(made.named_parameters()).values())
            return values or made(ct.tensor(np.linspace(-8, 8, 12, dtype=np.float32).reshape(3, 4)))
        if isinstance(made, optim.LRScheduler):
            return [[made.lr_at(t) for t in range(12)]]
        return made
    return run


def of(kind, *args):
    """forward() of a layer that is made anew."""
    def run(*inputs, **named):
        ct.manual_seed(3)
        return kind(*args)(*inputs, **named)
    return run


def sgd():
    return optim.SGD([ct.zeros(1, requires_grad=True)], lr=1.0)


def encoder():
    return nn.TransformerEncoderLayer(8, 2, dropout=0.0)


def clipped(**limit):
    x = ct.ones(2, requires_grad=True)
    (x * ct.tensor([0.25, 3.0])).sum().backward()
    nn.utils.clip_grad_value_(x, **limit)
    return x.grad


# (PyTorch's name, ours, the function, its arguments by PyTorch's names)
NAMES = [
    ("dim", "axis", ct.softmax, {"x": X, "dim": 0}), ("dim", "axes", ct.sum, {"x": X, "dim": (0, 1)}),
    ("dims", "axes", ct.flip, {"x": X, "dims": (1,)}), ("dims", "repeats", ct.tile, {"x": X, "dims": (2, 1)}),
    ("axis", "axes", ct.sum, {"x": X, "axis": 0}), ("axes", "axis", ct.cumsum, {"x": X, "axes": 0}),
    ("dim0", "axis0", ct.transpose, {"x": X, "dim0": 0, "dim1": 1}),
    ("dim1", "axis1", ct.diag_embed, {"x": X, "dim1": 0}),
    ("dim2", "axis2", ct.diag_embed, {"x": X, "dim2": 0}),
    ("keepdims", "keepdim", ct.mean, {"x": X, "axes": 0, "keepdims": True}),
    ("start_dim", "first_axis", ct.flatten, {"x": Q, "start_dim": 2}),
    ("end_dim", "last_axis", ct.flatten, {"x": Q, "end_dim": 1}),
    ("input", "x", ct.exp, {"input": X}), ("input", "a", ct.maximum, {"input": X, "b": Y}),
    ("input", "logits", ct.cross_entropy, {"input": X, "target": np.array([1, 2])}),
    ("input", "log_probs", ct.nll_loss, {"input": X, "target": np.array([1, 2])}),
    ("input", "indices", ct.embedding, {"input": I[:2] % 2, "weight": X}),
    ("input", "like", ct.zeros_like, {"input": X}),
    ("input", "weights", seeded(ct.multinomial), {"input": X, "count": 2}),
    ("input", "p", seeded(ct.bernoulli), {"input": X / 2}), ("other", "b", ct.sub, {"a": X, "other": Y}),
    ("exponent", "b", ct.pow, {"a": X, "exponent": 3}), ("self", "x", ct.exp, {"self": X}),
    ("query", "q", ct.scaled_dot_product_attention, {"query": Q, "k": Q[:, :, ::2].copy(), "v": Q[:, :, ::2].copy()}),
    ("key", "k", ct.scaled_dot_product_attention, {"q": Q, "key": Q * 2, "v": Q}),
    ("value", "v", ct.scaled_dot_product_attention, {"q": Q, "k": Q, "value": Q * 2}),
    ("is_causal", "causal", ct.scaled_dot_product_attention, {"q": Q, "k": Q, "v": Q, "is_causal": True}),
    ("attn_mask", "mask", ct.scaled_dot_product_attention, {"q": Q, "k": Q, "v": Q,
                                                            "attn_mask": np.tri(4, dtype=bool)}),
    ("min", "low", ct.clamp, {"x": X, "min": 0.6}), ("max", "high", ct.clamp, {"x": X, "max": 0.6}),
    ("a_min", "low", ct.clamp, {"x": X, "a_min": 0.6}), ("a_max", "high", ct.clamp, {"x": X, "a_max": 0.6}),
    ("min_val", "low", ct.hardtanh, {"x": -X, "min_val": -0.5}),
    ("max_val", "high", ct.hardtanh, {"x": X, "max_val": 0.5}),
    ("negative_slope", "slope", ct.leaky_relu, {"x": -X, "negative_slope": 0.3}),
    ("steps", "count", ct.linspace, {"start": 0.0, "end": 1.0, "steps": 4}),
    ("num_samples", "count", seeded(ct.multinomial), {"weights": X, "num_samples": 2}),
    ("num_classes", "classes", ct.one_hot, {"indices": I, "num_classes": 5}),
    ("size", "shape", ct.ones, {"size": (2, 3)}),
    ("fill_value", "value", ct.full, {"shape": (2,), "fill_value": 1.5}),
    ("tensor1", "a", ct.addcdiv, {"x": X, "tensor1": X, "b": Y}),
    ("tensor2", "b", ct.addcdiv, {"x": X, "a": X, "tensor2": Y}),
    ("mat1", "a", ct.addmm, {"x": X, "mat1": X[:, :2].copy(), "b": X}),
    ("mat2", "b", ct.mm, {"a": X[:, :2].copy(), "mat2": X}),
    ("vec2", "b", ct.outer, {"a": X[0], "vec2": X[1]}), ("end", "b", ct.lerp, {"a": X, "end": Y, "weight": 0.25}),
    ("src", "source", ct.scatter, {"x": X, "axis": 1, "index": I[None], "src": Y}),
    ("index", "indices", ct.index_select, {"x": X, "axis": 1, "index": I}),
    ("lambd", "rate", seeded(ct.exponential_), {"t": X, "lambd": 3.0}),
    ("lower", "low", seeded(ct.uniform_), {"t": X, "lower": 0.5, "high": 1.0}),
    ("upper", "high", seeded(ct.uniform_), {"t": X, "low": 0.5, "upper": 1.0}),
    ("split_size_or_sections", "size", ct.split, {"x": X, "split_size_or_sections": 2, "axis": 1}),
    ("split_size_or_sections", "sizes", ct.split, {"x": X, "split_size_or_sections": [1, 2], "axis": 1}),
    ("split_size", "size", ct.split, {"x": X, "split_size": 2, "axis": 1}),
    ("sorted_sequence", "sorted", ct.searchsorted, {"sorted_sequence": X[0], "values": X}),
    ("input", "values", ct.searchsorted, {"sorted": X[0], "input": X}),
    ("shifts", "shift", ct.roll, {"x": X, "shifts": 2}), ("reps", "repeats", ct.tile, {"x": X, "reps": (1, 2)}),
    ("k", "diagonal", ct.tril, {"x": X, "k": -1}), ("diagonal", "offset", ct.diag, {"x": X, "diagonal": 1}),
    ("n", "rows", ct.eye, {"n": 3}), ("m", "columns", ct.eye, {"rows": 2, "m": 3}),
    ("N", "classes", ct.one_hot, {"indices": I, "N": 4}),
    ("input1", "a", ct.cosine_embedding_loss, {"input1": X, "b": Y, "target": np.array([1, -1])}),
    ("input2", "b", ct.cosine_embedding_loss, {"a": X, "input2": Y, "target": np.array([1, -1])}),
    ("input1", "x1", ct.bilinear, {"input1": X, "x2": Y, "weight": Q.reshape(-1)[:9].reshape(1, 3, 3).copy()}),
    ("input2", "x2", ct.bilinear, {"x1": X, "input2": Y, "weight": Q.reshape(-1)[:9].reshape(1, 3, 3).copy()}),
    ("x1", "a", ct.pairwise_distance, {"x1": X, "b": Y * 3}), ("x2", "b", ct.pairwise_distance, {"a": X, "x2": Y * 3}),
    ("x1", "x", ct.cdist, {"x1": X, "y": Y[:1]}), ("x2", "y", ct.cdist, {"x": X, "x2": Y[:1]}),
    ("batch1", "a", ct.baddbmm, {"x": X[None], "batch1": X[None, :, :2].copy(), "b": X[None]}),
    ("batch2", "b", ct.baddbmm, {"x": X[None], "a": X[None, :, :2].copy(), "batch2": X[None]}),
    ("tensor", "b", ct.dot, {"a": X[0], "tensor": X[1]}), ("tensor", "indices", ct.one_hot, {"tensor": I}),
    ("pad", "padding", ct.pad, {"x": X, "pad": (1, 0)}),
    ("dimension", "axis", ct.unfold, {"x": X, "dimension": 1, "size": 2, "step": 1}),
    # layers, optimizers, schedules
    ("tensor", "t", seeded(ct.normal_), {"tensor": X, "mean": 0.0, "std": 1.0}),
    ("val", "value", lambda **named: ct.full((2,), **named), {"val": 1.5}),
    ("elementwise_affine", "affine", seeded(nn.LayerNorm), {"normalized_shape": 4, "elementwise_affine": False}),
    ("normalized_shape", "size", seeded(nn.RMSNorm), {"normalized_shape": 4}),
    ("num_embeddings", "count", seeded(nn.Embedding), {"num_embeddings": 5, "dim": 2}),
    ("embedding_dim", "dim", seeded(nn.Embedding), {"count": 5, "embedding_dim": 2}),
    ("encoder_layer", "layer", lambda **named: nn.TransformerEncoder(num_layers=2, **named).eval() is None,
     {"encoder_layer": encoder()}),
    ("unflattened_size", "sizes", lambda **named: nn.Unflatten(axis=1, **named)(ct.tensor(X)),
     {"unflattened_size": (3, 1)}),
    ("hx", "h0", of(nn.GRU, 8, 2), {"x": S, "hx": S[:1, :, :2].copy()}),
    ("hx", "h", of(nn.GRUCell, 8, 2), {"x": S[0], "hx": S[1, :, :2].copy()}),
    ("hx", "state", of(nn.LSTM, 8, 2), {"x": S, "hx": (S[:1, :, :2].copy(), S[1:2, :, :2].copy())}),
    ("src_key_padding_mask", "key_padding_mask", lambda **n: encoder_of(**n),
     {"src": S, "src_key_padding_mask": np.array([[False] * 4 + [True]])}),
    ("src_mask", "attn_mask", lambda **n: encoder_of(**n), {"src": S, "src_mask": ~np.tri(5, dtype=bool)}),
    ("a", "low", seeded(init.trunc_normal_), {"t": X, "a": -0.1}), ("b", "high", seeded(init.uniform_), {"t": X, "b": 3.0}),
    ("param", "a", init.gain, {"nonlinearity": "leaky_relu", "param": 0.3}),
    ("tgt_mask", "tgt_attn_mask", lambda **n: decoder_of(**n),
     {"tgt": S, "memory": S, "tgt_mask": ~np.tri(5, dtype=bool)}),
    ("memory_mask", "memory_attn_mask", lambda **n: decoder_of(**n),
     {"tgt": S, "memory": S, "memory_mask": ~np.tri(5, dtype=bool)}),
    ("T_max", "steps", lambda **n: seeded(optim.CosineAnnealingLR)(sgd(), **n), {"T_max": 4}),
    ("T_0", "steps", lambda **n: seeded(optim.CosineAnnealingWarmRestarts)(sgd(), **n), {"T_0": 4}),
    ("T_mult", "multiplier", lambda **n: seeded(optim.CosineAnnealingWarmRestarts)(sgd(), 2, **n), {"T_mult": 2}),
    ("eta_min", "min_lr", lambda **n: seeded(optim.CosineAnnealingLR)(sgd(), 4, **n), {"eta_min": 0.25}),
    ("total_iters", "steps", lambda **n: seeded(optim.LinearLR)(sgd(), **n), {"total_iters": 3}),
    ("data_source", "size", lambda **n: ct.tensor(data.RandomSampler(seed=2, **n).order(1)), {"data_source": range(7)}),
    ("dataset", "size", lambda **n: ct.tensor(data.DistributedSampler(seed=2, **n).order(1)), {"dataset": range(7)}),
    ("source", "module", lambda **n: ct.tensor(len(optim.Ema(**n).averages)), {"source": encoder()}),
    ("source", "params", lambda **n: optim.Ema(**n).averages[0], {"source": [X]}),
    ("clip_value", "limit", clipped, {"clip_value": 0.5}),
    ("mode", "enabled", lambda **n: (ct.set_anomaly(**n), ct.tensor(ct.anomaly_enabled()))[1], {"mode": False}),
]
BY_HAND = {("lr_lambda", "factor"), ("line_search_fn", "line_search"), ("max_grad_norm", "max_norm"),
           ("adjust_lr_fn", "adjust_lr"), ("mode", "maximize"), ("threshold_mode", "absolute"), ("anneal_strategy", "linear")}


def encoder_of(**named):
    ct.manual_seed(3)
    return encoder()(**named)


def decoder_of(**named):
    ct.manual_seed(3)
    return nn.TransformerDecoderLayer(8, 2, dropout=0.0)(**named)


@pytest.mark.parametrize("theirs, mine, function, options", NAMES, ids=[f"{a}-{b}" for a, b, *_ in NAMES])
def test_pytorchs_names_are_ours(theirs, mine, function, options):
    first = call(function, ((), ours(options, False)))
    again = call(function, ((), ours({mine if key == theirs else key: value for key, value in options.items()}, False)))
    assert same(first, again) and not isinstance(first[0], type)


def test_each_alias_is_tested():
    text = (pathlib.Path(__file__).parents[1] / "call.cpp").read_text()
    entries = re.findall(r"(\w+):(\w+)", text[text.index("kAliases ="):text.index("void each_alias")])
    assert len(entries) == len(set(entries)) > 50
    assert set(entries) == {(a, b) for a, b, *_ in NAMES} | BY_HAND


# ---- every argument of every function -----------------------------------------------------------------------------

FUNCTIONS = [n for n in PUBLISHED if n not in ELSEWHERE]
STRANGE = [("text", "a str"), (None, "None"), (object(), "an object"), (2.5, "a float"), (True, "a bool"),
           (1, "an int"), (2 ** 70, "2**70"),
           (-2 ** 70, "-2**70"), (math.nan, "NaN")]


def simplest(name):
    rows = [row for row in table()[name] if not row[2]]
    return rows[0] if rows else table()[name][0]


def refused(function, args, options, words):
    """Whether a call is refused by an error that names the function; other errors are a failure."""
    try:
        function(*args, **options)
    except (TypeError, ct.Error) as error:
        assert re.match(r"\[\w+\] .", str(error)), (words, str(error))
        assert "incompatible function arguments" not in str(error), words
        return True
    return False


@pytest.mark.parametrize("name", FUNCTIONS)
def test_none_is_an_options_default_or_refused(name):
    pytest.importorskip("torch")
    function, (_, args, options) = getattr(ct, name), simplest(name)
    usual = call(function, (ours(args, False), ours(options, False)))
    for key, parameter in list(inspect.signature(function).parameters.items())[len(args):]:
        if parameter.default is None and key not in options:
            assert same(call(function, (ours(args, False), {**ours(options, False), key: None})),
                        usual) or key in OTHER_FORM, key
        elif key not in options:
            assert refused(function, ours(args, False), {**ours(options, False), key: None}, (name, key)), key


OTHER_FORM = {"axis", "columns", "sizes", "shift", "shifts", "axes", "b", "value", "a_axes", "b_axes", "size", "values",
              "other"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_of_a_wrong_kind_are_refused_by_name(name):
    pytest.importorskip("torch")
    function = getattr(ct, name)
    for _, args, options in table()[name][:3]:
        usual = call(function, (ours(args, False), ours(options, False)))
        for place in [*range(len(args)), *options]:
            right = args[place] if isinstance(place, int) else options[place]
            for wrong, words in STRANGE:
                if name == "tensordot" and "a_axes" in options and place in (0, 1):
                    continue  # test_an_axis_of_a_scalar
                a, o = list(ours(args, False)), dict(ours(options, False))
                (a if isinstance(place, int) else o)[place] = wrong
                taken = not refused(function, a, o, (name, place, words))
                number = isinstance(wrong, (int, float)) or wrong is None  # which some of these are
                assert not (taken and not number and not isinstance(right, str)), (name, place, words)
                if taken and isinstance(right, bool):
                    assert wrong is True, (name, place, words)
                elif taken and isinstance(right, int) and name not in OF_NUMBERS:
                    assert type(wrong) is int and abs(wrong) < 2 ** 63 or wrong is None, (name, place, words)
                elif taken and isinstance(right, np.ndarray):
                    assert name in OF_NUMBERS or wrong is None and place in OPTIONAL_TENSORS, (name, place, words)
                elif taken and isinstance(right, (float, str)):
                    assert isinstance(wrong, (int, float)) or wrong is None, (name, place, words)
        assert same(call(function, (ours(args, False), ours(options, False))), usual)


OF_NUMBERS = {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "fmod", "remainder", "floor_divide", "atan2",
              "hypot", "xlogy",
              "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "eq", "ne", "lt",
              "le", "gt",
              "ge", "lerp", "where", "masked_fill", "scatter", "isclose", "allclose", "addcdiv", "addcmul", "addmm",
              "baddbmm",
              "bucketize", "cosine_similarity", "equal", "expand_as", "logical_and", "logical_or", "logical_xor",
              "masked_scatter",
              "masked_select", "masked_softmax", "pairwise_distance", "prelu", "repeat_interleave",
              "scaled_dot_product_attention",
              "searchsorted", "type_as"}  # beside a tensor a number stands for one of rank 0, where shapes allow that
OPTIONAL_TENSORS = {1, 2, 3, 4, "weight", "bias", "mask", "running_mean", "running_var", "lengths", "weights"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_too_many_unknown_and_doubled_arguments(name):
    pytest.importorskip("torch")
    function, (_, args, options) = getattr(ct, name), simplest(name)
    args, options = ours(args, False), ours(options, False)
    first = next(iter(inspect.signature(function).parameters))
    count = len(inspect.signature(function).parameters)
    with pytest.raises(TypeError, match=rf"\[{name}\] there is no argument 'colour'; it is {name}\("):
        function(*args, **options, colour="red")
    with pytest.raises(TypeError, match=rf"\[{name}\] several values were given for '{first}'"):
        function(*args, **options, **{first: args[0]})
    with pytest.raises(TypeError, match=rf"\[{name}\] "):
        function(*args, *[object()] * (count - len(args) + 1))
    with pytest.raises(TypeError, match=rf"\[{name}\] missing a required argument: '{first}'"):
        function()
    assert not isinstance(call(function, (args, options))[0], type)


BAD = [
    (lambda: ct.sum(ct.ones(2), axis=0, dim=0), TypeError, r"\[sum\] several values were given for 'dim'"),
    (lambda: ct.sum(ct.ones(2), 0, axes=0), TypeError, r"\[sum\] several values were given for 'axes'"),
    (lambda: ct.topk(ct.ones(3), 2.0), TypeError, r"\[topk\] k is a float; an int is wanted"),
    (lambda: ct.topk(ct.ones(3), True), TypeError, r"\[topk\] k is a bool; an int is wanted"),
    (lambda: ct.topk(ct.ones(3), 2, largest=0), TypeError, r"\[topk\] largest is a int; True or False is wanted"),
    (lambda: ct.softmax(ct.ones(3), 2 ** 70), ValueError, r"\[softmax\] axis is beyond 64 bits"),
    (lambda: ct.dropout(ct.ones(3), math.nan), ValueError, r"\[dropout\]"),
    (lambda: ct.exp(None), TypeError, r"\[exp\] x is a NoneType; a tensor is wanted"),
    (lambda: ct.matmul(ct.ones(2, 2), None), TypeError, r"\[matmul\] b is a NoneType; a tensor is wanted"),
    (lambda: ct.cat([ct.ones(2), None]), TypeError, r"\[cat\] tensors"),
    (lambda: ct.cat(ct.ones(2, 2)), TypeError, r"\[cat\] tensors is a Tensor; a list of tensors is wanted"),
    (lambda: ct.cat(None), TypeError, r"\[cat\] tensors is a NoneType; a list of tensors is wanted"),
    (lambda: ct.zeros("2"), TypeError, r"\[zeros\] shape is a str"),
    (lambda: ct.zeros(2.0), TypeError, r"\[zeros\] shape is a float"),
    (lambda: ct.zeros(), TypeError, r"\[zeros\] missing a required argument: 'shape'"),
    (lambda: ct.zeros(2, 3, device=0), TypeError, r"\[zeros\] device is a int; a device"),
    (lambda: ct.zeros(2, requires_grad=1), TypeError, r"\[zeros\] requires_grad is a int; True or False"),
    (lambda: ct.randn(2, generator=3), TypeError, r"\[randn\] generator is a int"),
    (lambda: ct.gelu(ct.ones(2), "Tanh"), ValueError, r"\[gelu\] approximate is '+Tanh'+; it is one of: none tanh"),
    (lambda: ct.gelu(ct.ones(2), approximate=None), TypeError, r"\[gelu\] approximate is a NoneType; a str is wanted"),
    (lambda: ct.mse_loss(ct.ones(2), ct.ones(2), reduction="most"), ValueError, r"\[mse_loss\] reduction is '+most'"),
    (lambda: ct.add_(ct.ones(2), 1), AttributeError, "add_"),
    (lambda: ct.neg_(np.ones(2)), TypeError, r"\[neg_\] x is a ndarray; "),
    (lambda: ct.ones(2).add_(None), TypeError, r"\[add_\]"),
    (lambda: ct.ones(2).fill_("1"), TypeError, r"\[fill_\] value is a str; a number is wanted"),
    (lambda: ct.rnn(ct.ones(1, 1, 2), ct.ones(1, 2), ct.ones(2, 2)), TypeError,
     r"\[rnn\] weights is a Tensor; a tuple \(w_ih"),
    (lambda: ct.pad(ct.ones(3), 1), TypeError, r"\[pad\] padding is a int; a sequence of ints is wanted"),
    (lambda: ct.arange("3"), TypeError, r"\[arange\] .* is a str"),
    (lambda: ct.arange(), TypeError, r"\[arange\] missing a required argument"),
    (lambda: ct.clamp(ct.ones(2)), ValueError, r"\[clamp\]"),
]


@pytest.mark.parametrize("wrong, error, words", BAD)
def test_bad_calls_say_what_is_wanted_and_the_next_one_works(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong()
    assert ct.sum(ct.ones(2)).item() == 2 and ct.zeros(2, 3).shape == (2, 3)


def test_an_axis_of_a_scalar():
    code = "import cotangent as ct; ct.tensordot(ct.ones(2, 3), ct.tensor(2.5), a_axes=[1], b_axes=[0])"
    assert b"ShapeError" in subprocess.run([sys.executable, "-c", code], capture_output=True).stderr


def test_an_int_is_no_dtype():
    with pytest.raises(TypeError, match=r"\[zeros\] dtype is"):
        ct.zeros(2, dtype=4)


def test_sizes_and_tensors_go_one_by_one_or_as_a_list():
    for shape in ((2, 3), [2, 3], np.array([2, 3])):
        assert ct.zeros(shape).shape == ct.zeros(2, 3).shape == ct.zeros(np.int64(2), 3).shape == (2, 3)
    assert ct.eye(2, 4).shape == (2, 4) and ct.eye(2, 4).dtype == ct.f32 and ct.eye(2, ct.f64).dtype == ct.f64
    a = ct.ones(2)
    assert ct.einsum("i,i->", a, a).item() == ct.einsum("i,i->", [a, a]).item() == 2
    assert ct.meshgrid(a, a)[0].shape == ct.meshgrid([a, a])[0].shape == (2, 2)
