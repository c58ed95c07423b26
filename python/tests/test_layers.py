"""Every layer and loss beside torch.nn with the same parameters: required arguments alone, each option, None where an
option may be left out; results, gradients of inputs and parameters, buffers, training and evaluation."""
import functools
import inspect

import numpy as np
import pytest

import cotangent as ct
from beside import SEED, array, close, compare, fixed, in_dtype, leaves, mapped, ours, theirs
from cotangent import nn
from cotangent._core import _nn

LAYERS = sorted(name for name, kind in vars(_nn).items() if isinstance(kind, type) and name != "Module"
                and "forward" in vars(kind))
MADE_WITH = {"dtype", "device"}  # of all that have parameters: test_dtype_and_device
RENAMED = {"axis": "dim", "slope": "negative_slope", "low": "min_val", "high": "max_val", "count": "num_embeddings",
           "first_axis": "start_dim", "last_axis": "end_dim", "layer": "encoder_layer", "sizes": "unflattened_size"}
ELSEWHERE = {"Dropout": "test_dropout", "TransformerEncoder": "test_a_stack_of_layers"}


@functools.lru_cache(maxsize=None)
def table():
    """name -> [(arguments, options, inputs, how torch.nn makes it, options of forward(), PyTorch's names of those)]"""
    import torch
    rng, rows = np.random.default_rng(11 + SEED), {}

    def normal(*shape):
        return np.asarray(rng.normal(size=shape), np.float32)

    def positive(*shape):
        return np.abs(normal(*shape)) + np.float32(0.1)

    def row(name, args, inputs, options=None, make=None, forward=None, their_forward=None):
        rows.setdefault(name, []).append((args, options or {}, inputs, make, forward or {}, their_forward))

    def each(name, args, inputs, *options, make=None):
        row(name, args, inputs, make=make)
        for one in options:
            row(name, args, inputs, one, make)

    x = normal(3, 4)
    for name in ("ReLU", "SiLU", "Tanh", "Sigmoid", "SELU", "ReLU6", "Hardsigmoid", "Hardswish", "Mish", "Softsign",
                 "LogSigmoid",
                 "Identity"):
        row(name, (), [3 * x])
    each("ELU", (), [x], {"alpha": 0.3})
    each("Hardtanh", (), [3 * x], {"low": -2.0}, {"high": 0.5})
    each("PReLU", (), [x], {"num_parameters": 4}, {"init": 0.5})
    each("LeakyReLU", (), [x], {"slope": 0.3})
    each("GELU", (), [x], {"approximate": "tanh"})
    each("Softplus", (), [3 * x], {"beta": 2.0}, {"threshold": 1.0})
    for name in ("Softmax", "LogSoftmax"):
        each(name, (), [x], {"axis": 0}, make=lambda dim=-1, name=name: getattr(torch.nn, name)(dim))
    each("Linear", (4, 5), [x], {"bias": False})
    each("Bilinear", (4, 2, 5), [x, normal(3, 2)], {"bias": False})
    each("Embedding", (9, 4), [np.array([[1, 8], [2, 2]])], {"padding_idx": 2}, {"padding_idx": None})
    cube = normal(2, 3, 4, 5)
    each("Flatten", (), [cube], {"first_axis": 2}, {"last_axis": 2})
    row("Unflatten", (1, (3, 1)), [cube])
    for n, suffix in ((1, "1d"), (2, "2d")):
        image = normal(2, 4, *[8, 9][:n])

        def pair(a, b, n=n):
            return (a, b) if n == 2 else b
        convolution = ({"stride": 2}, {"stride": pair(1, 2)}, {"padding": 1}, {"dilation": 2}, {"groups": 2},
                       {"bias": False})
        each("Conv" + suffix, (4, 6, 3), [image], *convolution, {"padding": "same"}, {"padding": "valid"})
        row("Conv" + suffix, (4, 6, pair(1, 3)), [image[0]])
        each("ConvTranspose" + suffix, (4, 6, 3), [image], *convolution, {"stride": 2, "output_padding": 1})
        pool = ({"stride": 3}, {"stride": None}, {"padding": 1}, {"stride": 3, "ceil_mode": True})
        each("MaxPool" + suffix, (2,), [image], *pool, {"dilation": 2})
        each("AvgPool" + suffix, (2,), [image], *pool, {"padding": 1, "count_include_pad": False})
        for kind in ("Avg", "Max"):
            row(f"Adaptive{kind}Pool{suffix}", (3,), [image])
        norm = ({"eps": 0.1}, {"momentum": 0.3}, {"affine": False}, {"track_running_stats": False})
        each("BatchNorm" + suffix, (4,), [image], *norm, {"momentum": None}, {"momentum": None, "affine": False})
        each("InstanceNorm" + suffix, (4,), [image], {"eps": 0.1}, {"affine": True}, {"track_running_stats": True},
             {"track_running_stats": True, "momentum": 0.3})
    row("BatchNorm1d", (4,), [normal(5, 4)])
    row("AvgPool2d", (2,), [image], {"divisor_override": 3})
    each("GroupNorm", (2, 4), [image], {"eps": 0.1}, {"affine": False})
    each("LayerNorm", (4,), [x], {"eps": 0.1}, {"affine": False}, {"bias": False},
         make=lambda size, eps=1e-5, affine=True, bias=True: torch.nn.LayerNorm(size, eps, affine, bias))
    row("LayerNorm", ((3, 4),), [normal(2, 3, 4)])
    each("RMSNorm", (4,), [x / 1000], {"eps": 0.1}, {"eps": None}, {"affine": False},
         make=lambda size, eps=None, affine=True: torch.nn.RMSNorm(size, eps, affine))
    for more in ({"size": 6}, {"size": (3, 8)}, {"scale_factor": 2.0}, {"scale_factor": (1.5, 2.0), "mode": "bilinear"},
                 {"size": 7, "mode": "bilinear", "align_corners": True}, {"size": None, "scale_factor": 2.0}):
        row("Upsample", (), [cube], more)
    # ---- losses ----
    a, b, p, t = normal(3, 4), normal(3, 4), rng.uniform(0.1, 0.9, (3, 4)).astype("f"), rng.uniform(0.1, 0.9,
                                                                                                    (3, 4)).astype("f")
    ways, weight = ({"reduction": "none"}, {"reduction": "sum"}), fixed(positive(4))
    each("MSELoss", (), [a, b], *ways)
    each("L1Loss", (), [a, b], *ways)
    each("SmoothL1Loss", (), [a, b], *ways, {"beta": 0.3})
    each("HuberLoss", (), [a, b], *ways, {"delta": 0.3})
    each("KLDivLoss", (), [a, t], *ways, {"batch_mean": True}, {"log_target": True},
         make=lambda batch_mean=False, **k: torch.nn.KLDivLoss(**({"reduction": "batchmean"} if batch_mean else k)))
    each("GaussianNLLLoss", (), [a, b, positive(3, 4)], *ways, {"full": True}, {"eps": 0.5})
    each("CosineEmbeddingLoss", (), [a, b, np.array([1, -1, 1])], *ways, {"margin": -0.9})
    each("TripletMarginLoss", (), [a, b, normal(3, 4)], *ways, {"margin": 4.0}, {"p": 1.0}, {"eps": 0.1},
         {"margin": 4.0, "swap": True})
    each("BCELoss", (), [p, fixed(t)], *ways, {"weight": weight}, {"weight": None})
    each("BCEWithLogitsLoss", (), [a, t], *ways, {"weight": weight}, {"pos_weight": weight},
         {"weight": None, "pos_weight": None})
    labels = np.array([1, 3, 0])
    each("NLLLoss", (), [a, labels], *ways, {"weight": weight}, {"ignore_index": 3}, {"weight": None})
    each("CrossEntropyLoss", (), [a, labels], *ways, {"weight": weight}, {"ignore_index": 3}, {"label_smoothing": 0.2},
         {"weight": None})
    # ---- recurrent ----
    sequence, first = normal(5, 3, 4), normal(3, 4)
    options = [{"num_layers": 2}, {"bias": False}, {"batch_first": True}, {"bidirectional": True},
               {"num_layers": 2, "dropout": 0.5},
               {"num_layers": 2, "bidirectional": True, "batch_first": True}]
    for name in ("RNN", "GRU", "LSTM"):
        more = [{"nonlinearity": "relu"}] if name == "RNN" else []
        each(name, (4, 2), [sequence], *options, *more)
        each(name + "Cell", (4, 2), [first], {"bias": False}, *more)
        for key, one in (("", {}), ("batch_first", {"batch_first": True}), ("bidirectional", {"bidirectional": True})):
            state = normal(2 if one.get("bidirectional") else 1, 5 if one.get("batch_first") else 3, 2)
            row(name, (4, 2), [sequence, (state, state * 2) if name == "LSTM" else state], one)
        row(name + "Cell", (4, 2), [first, (normal(3, 2), normal(3, 2)) if name == "LSTM" else normal(3, 2)])
        row(name, (4, 2), [sequence[:, 0]])
    # ---- attention; dropout is compared where it is off ----
    hidden, causal = np.array([[False] * 4 + [True], [False] * 5, [False] * 3 + [True] * 2]), ~np.tri(5, dtype=bool)
    sequence = normal(5, 3, 8)
    key, value = normal(5, 3, 4), normal(5, 3, 2)

    def attention(*args, kdim=0, vdim=0, **more):
        return torch.nn.MultiheadAttention(*args, kdim=kdim or None, vdim=vdim or None, **more)
    itself = [sequence] * 3
    each("MultiheadAttention", (8, 2), itself, {"bias": False}, {"batch_first": True}, {"dropout": 0.5}, make=attention)
    row("MultiheadAttention", (8, 2), [sequence, key, value], {"kdim": 4, "vdim": 2}, attention)
    for masks in ({"key_padding_mask": hidden}, {"attn_mask": causal}, {"attn_mask": fixed(normal(5, 5))},
                  {"attn_mask": causal, "is_causal": True}, {"key_padding_mask": None, "attn_mask": None}):
        row("MultiheadAttention", (8, 2), itself, {}, attention, masks)
    row("MultiheadAttention", (8, 2), itself, {}, attention, {"is_causal": True}, {"attn_mask": causal})
    layer = [{"dropout": 0.0}, {"activation": "gelu"}, {"layer_norm_eps": 0.1}, {"batch_first": True},
             {"norm_first": True},
             {"bias": False}, {"dim_feedforward": 12}]
    small = {"dim_feedforward": 16}
    each("TransformerEncoderLayer", (8, 2), [sequence], *({**small, **one} for one in layer))
    each("TransformerDecoderLayer", (8, 2), [sequence, normal(5, 3, 8)], *({**small, **one} for one in layer))
    for mine, yours in (({"key_padding_mask": hidden}, {"src_key_padding_mask": hidden}),
                        ({"attn_mask": causal}, {"src_mask": causal}),
                        ({"is_causal": True}, {"src_mask": causal})):
        row("TransformerEncoderLayer", (8, 2), [sequence], small, None, mine, yours)
    memory, behind = normal(5, 3, 8), normal(5, 5)
    for mine, yours in (({"tgt_key_padding_mask": hidden}, {}), ({"tgt_attn_mask": causal}, {"tgt_mask": causal}),
                        ({"tgt_is_causal": True}, {"tgt_mask": causal}), ({"memory_key_padding_mask": hidden}, {}),
                        ({"memory_attn_mask": fixed(behind)}, {"memory_mask": fixed(behind)}),
                        ({"memory_is_causal": True}, {"memory_mask": causal})):
        row("TransformerDecoderLayer", (8, 2), [sequence, memory], small, None, mine, yours or mine)
    return rows


def made(name, row, dtype):
    """Our layer and PyTorch's, with our values in both."""
    import torch
    args, options, _, make, _, _ = row
    layer = getattr(nn, name)(*args, **ours(in_dtype(options, dtype), False), **dtype_of(name, dtype))
    renamed = {RENAMED.get(key, key): value for key, value in options.items()}
    other = (make or getattr(torch.nn, name))(*args, **theirs(in_dtype(options if make else renamed, dtype), False)
                                              if not (
        make and "axis" in options) else {"dim": options["axis"]})
    other = other.to({np.float32: torch.float32, np.float64: torch.float64}[dtype])
    mine, yours = dict(layer.named_parameters()), dict(other.named_parameters())
    assert {k: v.shape for k, v in mine.items()} == {k: tuple(v.shape) for k, v in yours.items()}
    assert {k: tuple(v.shape) for k, v in dict(layer.named_buffers()).items()} == {
        k: tuple(v.shape) for k, v in other.named_buffers()}
    with torch.no_grad():
        for key, value in mine.items():
            value.detach().copy_(ct.tensor(np.random.default_rng(len(key)).normal(size=value.shape).astype(dtype)) / 2)
            yours[key].copy_(torch.tensor(array(value)))
    return layer, other


def dtype_of(name, dtype):
    return {"dtype": ct.f64} if dtype == np.float64 and "dtype" in inspect.signature(getattr(nn,
                                                                                             name)).parameters else {}


def parameters_alike(layer, other, tolerance, what):
    yours = dict(other.named_parameters())
    for key, value in dict(layer.named_parameters()).items():
        g, h = value.grad, yours[key].grad
        close(np.zeros(value.shape) if g is None else array(g), np.zeros(value.shape) if h is None else array(h),
              tolerance, (what, key))
    for key, value in dict(layer.named_buffers()).items():
        close(array(value), array(dict(other.named_buffers())[key]), tolerance, (what, key))


def run(name, row, dtype, on):
    layer, other = made(name, row, dtype)
    args, options, inputs, _, forward, their_forward = row
    layer.train(on), other.train(on)
    inputs = in_dtype(inputs, dtype)
    for times in range(2):  # twice: running statistics of two batches
        mine, yours = ours(mapped(np.copy, inputs)), theirs(inputs)
        if name == "MultiheadAttention" and inputs[0] is inputs[1]:
            mine, yours = mine[:1] * 3, yours[:1] * 3
        result = layer(*mine, **ours(in_dtype(forward, dtype), False))
        wanted = other(*yours, **theirs(in_dtype(their_forward or forward, dtype), False))
        compare(result, wanted, mine, yours, dtype, (name, options, forward, on))
    parameters_alike(layer, other, 1e-7 if dtype == np.float64 else 1e-3, (name, options, on))


@pytest.mark.parametrize("name", [n for n in LAYERS if n not in ELSEWHERE])
def test_layers_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    torch.backends.mha.set_fastpath_enabled(False)
    for row in table()[name]:
        if "Transformer" in name:
            row = (row[0], {"dropout": 0.0, **row[1]}, *row[2:])
        random = row[1].get("dropout")
        for dtype, on in ((np.float32, True), (np.float32, False), (np.float64, True)):
            if not (random and on):
                run(name, row, dtype, on)
        if random:
            layer = getattr(nn, name)(*row[0], **row[1])
            first, second = (list(leaves(layer(*ours(row[2]))))[0].tolist() for _ in range(2))
            assert first != second
    parameters = inspect.signature(getattr(nn, name)).parameters
    given = set().union(*(list(parameters)[:len(row[0])] + list(row[1]) for row in table()[name]))
    assert set(parameters) - MADE_WITH - given <= {"size"}
    assert any(not row[1] for row in table()[name]) or name == "Upsample"


def test_each_layer_has_a_row():
    pytest.importorskip("torch")
    assert set(LAYERS) == set(table()) | set(ELSEWHERE) and len(LAYERS) > 60


def test_options_of_forward_are_all_in_rows():
    pytest.importorskip("torch")
    for name in ("MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer"):
        given = set().union(*(row[4] for row in table()[name]))
        parameters = [p for p in inspect.signature(getattr(nn, name).forward).parameters.values()
                      if p.default is not p.empty]
        assert {p.name for p in parameters} - {"need_weights"} == given


ARGUMENTS = {"Unflatten": (0, (2, 2)), "GroupNorm": (2, 4), "Bilinear": (2, 3, 4), "MultiheadAttention": (8, 2)}


@pytest.mark.parametrize("name", [n for n in LAYERS if "dtype" in inspect.signature(getattr(nn, n)).parameters])
def test_dtype_and_device(name):
    kind = getattr(nn, name)
    required = [p for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
    args = ARGUMENTS.get(name, (4,) * len(required))
    for dtype in (ct.f64, ct.f16, ct.bf16):
        layer = kind(*args, dtype=dtype, device="cpu")
        assert {str(p.dtype) for p in dict(layer.named_parameters()).values()} <= {str(dtype), "DType.f32"}
        assert not dict(layer.named_parameters()) or str(dtype) in {str(p.dtype)
                                                                    for p in dict(layer.named_parameters()).values()}
    with pytest.raises(ct.Error):
        kind(*args, device="cuda:99", **({"affine": True} if "affine" in inspect.signature(kind).parameters else {}))
    with pytest.raises(TypeError, match=rf"\[{name}\]"):
        kind(*args, dtype="no dtype")
    assert kind(*args) is not None


@pytest.mark.parametrize("name", ["MultiheadAttention", "RNN", "GRU", "LSTM", "TransformerEncoderLayer", "LayerNorm",
                                  "RMSNorm"])
def test_methods_beside_forward(name):
    if name == "MultiheadAttention":
        torch = pytest.importorskip("torch")
        layer, other = made(name, table()[name][0], np.float32)
        x = table()[name][0][2][0]
        result, wanted = layer.forward_with_weights(*[ct.tensor(x)] * 3,
                                                    attn_mask=ct.tensor(~np.tri(5, dtype=bool))), other(
            *[torch.tensor(x)] * 3, attn_mask=torch.tensor(~np.tri(5, dtype=bool)))
        compare(result, wanted, [], [])
    if name in ("LayerNorm", "RMSNorm"):
        layer, x, r = getattr(nn, name)(4), ct.randn(3, 4), ct.randn(3, 4)
        y, total = layer.add_forward(x, r)
        assert total.tolist() == (x + r).tolist() and np.allclose(y.detach().numpy(), layer(x + r).detach().numpy(),
                                                                  atol=1e-6)
        assert layer.add_forward(x, r, use="stream")[0].tolist() == y.tolist()
    elif name != "TransformerEncoderLayer":
        layer = getattr(nn, name)(4, 2)
        before = {k: v.tolist() for k, v in dict(layer.named_parameters()).items()}
        layer.reset_parameters()
        assert any(v.tolist() != before[k] for k, v in dict(layer.named_parameters()).items())


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_sequences_of_different_lengths(name):
    torch = pytest.importorskip("torch")
    layer, other = made(name, table()[name][0], np.float32)
    x, lengths = np.random.default_rng(0).normal(size=(5, 3, 4)).astype("f"), [2, 5, 3]
    result = layer(ct.tensor(x), lengths=ct.tensor(lengths))
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(x), lengths, enforce_sorted=False)
    output, state = other(packed)
    output, _ = torch.nn.utils.rnn.pad_packed_sequence(output)
    compare(result, (output, state), [], [])


def test_dropout():
    x = ct.ones(4000, requires_grad=True)
    for layer, p in ((nn.Dropout(), 0.5), (nn.Dropout(0.2), 0.2), (nn.Dropout(p=1.0), 1.0)):
        y = layer(x)
        assert abs((y.detach().numpy() == 0).mean() - p) < 0.03
        assert layer.eval() is None or layer(x).tolist() == [1] * 4000
        assert layer(x).tolist() == [1] * 4000
        layer.train()
        assert layer(x).tolist() != [1] * 4000
    with pytest.raises(ct.ValueError, match=r"\[Dropout\]"):
        nn.Dropout(1.5)


def test_a_stack_of_layers():
    torch = pytest.importorskip("torch")
    hidden, causal = np.array([[False] * 4 + [True], [False] * 5]), ~np.tri(5, dtype=bool)
    for norm in (False, True):
        layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.0)
        other = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0)
        stack = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8) if norm else None)
        other = torch.nn.TransformerEncoder(other, num_layers=2, norm=torch.nn.LayerNorm(8) if norm else None,
                                            enable_nested_tensor=False)
        mine, yours = dict(stack.named_parameters()), dict(other.named_parameters())
        assert {k: v.shape for k, v in mine.items()} == {k: tuple(v.shape) for k, v in yours.items()}
        with torch.no_grad():
            for key, value in mine.items():
                yours[key].copy_(torch.tensor(array(value)))
        x = np.random.default_rng(0).normal(size=(5, 2, 8)).astype("f")
        for masks, theirs_masks in (({}, {}), ({"key_padding_mask": hidden}, {"src_key_padding_mask": hidden}),
                                    ({"attn_mask": causal}, {"mask": causal}), ({"is_causal": True}, {"mask": causal})):
            a, b = ours([x]), theirs([x])
            compare(stack(*a, **ours(masks)), other(*b, **theirs(theirs_masks)), a, b, what=(norm, list(masks)))
        parameters_alike(stack, other, 1e-3, norm)


def test_pytorchs_names_of_masks():
    x, hidden, causal = ct.randn(5, 2, 8), ct.tensor(np.array([[False] * 4 + [True],
                                                               [False] * 5])), ct.tensor(~np.tri(5, dtype=bool))
    layer = nn.TransformerEncoderLayer(8, 2, dropout=0.0)
    decoder = nn.TransformerDecoderLayer(8, 2, dropout=0.0)
    assert layer(x, src_key_padding_mask=hidden).tolist() == layer(x,
        key_padding_mask=hidden).tolist() != layer(x).tolist()
    assert layer(x, src_mask=causal).tolist() == layer(x, attn_mask=causal).tolist()
    with pytest.raises(TypeError, match="mask"):  # scaled_dot_product_attention's, where true is seen
        nn.MultiheadAttention(8, 2)(x, x, x, mask=causal)
    assert decoder(x, x, tgt_mask=causal).tolist() == decoder(x, x, tgt_attn_mask=causal).tolist()
    assert decoder(x, x, memory_mask=causal).tolist() == decoder(x, x, memory_attn_mask=causal).tolist()


BAD = [
    (lambda: nn.Linear(), TypeError, r"\[Linear\] missing a required argument: 'in_features'"),
    (lambda: nn.Linear(2, 3, True, ct.f32, "cpu", 1), TypeError, r"\[Linear\] takes"),
    (lambda: nn.Linear(2, 3, colour=1), TypeError, r"\[Linear\] there is no argument 'colour'"),
    (lambda: nn.Linear(2, 3, in_features=2), TypeError, r"\[Linear\] several values were given for 'in_features'"),
    (lambda: nn.Linear("2", 3), TypeError, r"\[Linear\] in_features is a str; an int is wanted"),
    (lambda: nn.Linear(2.0, 3), TypeError, r"\[Linear\] in_features is a float; an int is wanted"),
    (lambda: nn.Linear(True, 3), TypeError, r"\[Linear\] in_features is a bool; an int is wanted"),
    (lambda: nn.Linear(None, 3), TypeError, r"\[Linear\] in_features is a NoneType"),
    (lambda: nn.Linear(2, 3, bias=1), TypeError, r"\[Linear\] bias is a int; True or False"),
    (lambda: nn.Linear(2, 3, bias=None), TypeError, r"\[Linear\] bias is a NoneType"),
    (lambda: nn.Linear(2 ** 70, 3), ValueError, r"\[Linear\] in_features is beyond 64 bits"),
    (lambda: nn.Linear(-2, 3), ValueError, r"\[.*\]"),
    (lambda: nn.GELU("Tanh"), ValueError, r"\[GELU\] approximate is '+Tanh'+; it is one of: none tanh"),
    (lambda: nn.Dropout(float("nan")), ValueError, r"\[Dropout\]"),
    (lambda: nn.Dropout("0.5"), TypeError, r"\[Dropout\] p is a str; a number is wanted"),
    (lambda: nn.Conv2d(1, 1, (1, 2, 3)), (TypeError, ValueError), r"\[Conv2d\]"),
    (lambda: nn.Conv2d(1, 1, 1, padding="most"), ValueError, r"\[.*\].*same"),
    (lambda: nn.RNN(2, 3, nonlinearity="gelu"), ValueError, r"\[RNN\]"),
    (lambda: nn.MultiheadAttention(8, 3), ValueError, r"\[MultiheadAttention\]"),
    (lambda: nn.TransformerEncoder(nn.Linear(1, 1), 2), TypeError, r"\[TransformerEncoder\] layer is a Linear"),
    (lambda: nn.Linear(2, 3)(), TypeError, r"\[Linear\]"),
    (lambda: nn.Linear(2, 3)(ct.ones(2), ct.ones(2)), TypeError, r"\[Linear\]"),
    (lambda: nn.Linear(2, 3)(None), TypeError, r"\[Linear\] x is a NoneType"),
    (lambda: nn.Linear(2, 3)(ct.ones(4)), ct.ShapeError, r"\[linear\]"),
    (lambda: nn.LSTM(2, 3)(ct.ones(5, 1, 2), ct.ones(2)), TypeError, r"\[LSTM\] state is a Tensor"),
]


@pytest.mark.parametrize("call, error, words", BAD)
def test_bad_calls_say_what_is_wanted_and_the_next_one_works(call, error, words):
    with pytest.raises(error, match=words):
        call()
    assert nn.Linear(2, 3)(ct.ones(4, 2)).shape == (4, 3)


def test_settings_are_all_arguments_by_our_names():
    assert vars(nn.Softmax(dim=0))["_settings"] == vars(nn.Softmax(0))["_settings"] == {"axis": 0}
    assert vars(nn.Softmax(dim=0))["_made"] == ((), {"dim": 0})
    settings = vars(nn.Conv2d(1, 2, (3, 1), padding="same"))["_settings"]
    assert settings == {"in_channels": 1, "out_channels": 2, "kernel_size": (3, 1), "stride": 1, "padding": "same",
                        "dilation": 1, "groups": 1, "bias": True, "dtype": ct.f32, "device": "cpu"}
    assert vars(nn.Embedding(num_embeddings=3, embedding_dim=2))["_settings"]["count"] == 3
    for name in LAYERS:
        kind = getattr(nn, name)
        parameters = inspect.signature(kind).parameters
        args = (4,) * sum(p.default is p.empty for p in parameters.values())
        if name == "TransformerEncoder":
            args = nn.TransformerEncoderLayer(8, 2), 1
        assert list(vars(kind(*ARGUMENTS.get(name, args)))["_settings"]) == list(parameters), name


@pytest.mark.parametrize("make", [lambda: nn.RNN(3, 2, bias=False), lambda: nn.GRUCell(3, 2, bias=False),
                                  lambda: nn.LSTM(3, 2, bias=False), lambda: nn.Linear(3, 2, bias=False)])
def test_a_bias_that_is_assigned_later_counts(make):
    layer = make()
    name = next(n for n in ("bias_ih_l0", "bias_ih", "bias") if n in dir(layer) or hasattr(layer, n))
    assert getattr(layer, name) is None and name not in layer.state_dict()

    def result():
        y = layer(ct.ones(1, 3))
        return (y[0] if isinstance(y, tuple) else y).tolist()

    before = result()
    rows = layer.get("weight_ih_l0" if name.endswith("l0") else "weight_ih" if "ih" in name else "weight").shape[0]
    setattr(layer, name, nn.Parameter(ct.ones(rows)))
    if "ih" in name:  # the two biases of a cell come together
        setattr(layer, name.replace("ih", "hh"), nn.Parameter(ct.zeros(rows)))
    assert result() != before and name in layer.state_dict() and any(p is getattr(layer, name) for p in layer.parameters())
