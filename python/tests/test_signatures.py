"""Signatures, documentation and names that an editor and help() show; and that functions are copied by name."""
import copy
import inspect
import pickle
import pydoc

import pytest

import cotangent as ct
from cotangent import nn, optim
from cotangent._core import _data, _functions, _init, _nn, _optim

FUNCTIONS = [name for name in vars(_functions) if not name.startswith("_")]
CLASSES = [kind for part in (_nn, _optim, _data) for kind in vars(part).values() if isinstance(kind, type)
           and "__signature__" in vars(kind)]
# Headers have no words of their own for these: what stands above the first of a group holds for all of it.
UNDOCUMENTED = {"add_", "sub_", "mul_", "div_"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_a_signature_a_name_and_a_text(name):
    function = getattr(ct, name)
    assert function is getattr(_functions, name)
    signature = inspect.signature(function)
    assert list(signature.parameters) and repr(function) == f"<function {name}{text_of(function)}>"
    assert (function.__name__, function.__qualname__, function.__module__) == (name, name, "cotangent")
    assert inspect.isroutine(function) and callable(function)
    page = pydoc.plain(pydoc.render_doc(function))
    assert f"{name}(" in page and list(signature.parameters)[0] in page
    assert not function.__doc__ or function.__doc__.splitlines()[0] in page
    for parameter in signature.parameters.values():
        assert not isinstance(parameter.default, (set, str)) or parameter.default in ("cpu", "mean", "none", "nearest",
                                                                                      "constant", "ij",
                                                                                      "product"), parameter
    for word in ("std::", "nullopt", "ct::", "Tensor(", "{}"):
        assert word not in str(signature), word


def text_of(function):
    """The signature that repr() shows: that of the C++, before Python reads its numbers."""
    return repr(function).removeprefix(f"<function {function.__name__}").removesuffix(">")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_pickled_and_copied_by_name(name):
    function = getattr(ct, name)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(function, protocol)) is function
    assert copy.copy(function) is function and copy.deepcopy(function) is function
    assert hash(function) == hash(getattr(ct, name)) and function == getattr(ct, name) != ct.version


def test_functions_of_initial_values_are_pickled_and_shown():
    for name in (n for n, f in vars(_init).items() if type(f) is type(ct.exp)):  # others are Python's
        function = getattr(_init, name)
        assert function.__name__ == name.removeprefix("calculate_") and function.__module__ == "cotangent.nn.init"
        assert f"{function.__name__}(" in pydoc.plain(pydoc.render_doc(function)) and inspect.signature(function).parameters


def test_functions_of_initial_values_are_pickled():
    for name in (n for n in vars(_init) if not n.startswith("_")):
        assert pickle.loads(pickle.dumps(getattr(_init, name))) is getattr(_init, name)


def test_documentation_is_there():
    without = [name for name in FUNCTIONS if not getattr(ct, name).__doc__]
    assert len(without) < 0.15 * len(FUNCTIONS), without
    for name, words in (("softmax", "exp(x_i)"), ("topk", "largest"), ("conv2d", "cross-correlation"),
                        ("dropout", "probability p")):
        assert words in getattr(ct, name).__doc__


def test_methods_are_the_functions():
    x = ct.tensor([[1.0, 2.0], [4.0, 3.0]])
    assert x.softmax(1).tolist() == ct.softmax(x,
        1).tolist() and x.softmax.__name__ == "softmax" and x.softmax.__self__ is x
    assert list(inspect.signature(x.softmax).parameters) == ["axis"]
    assert list(inspect.signature(ct.Tensor.softmax).parameters) == ["x", "axis"]
    for one in (x.softmax, ct.Tensor.softmax):
        assert "softmax(" in pydoc.plain(pydoc.render_doc(one)) and "exp(x_i)" in pydoc.plain(pydoc.render_doc(one))
    assert pickle.loads(pickle.dumps(ct.Tensor.softmax)) is ct.softmax
    for name in FUNCTIONS:
        method = vars(ct.Tensor).get(name)
        assert method is None or name == "where" or method is getattr(ct,
            name) or "nb_method" in type(method).__name__, name


def test_the_page_of_the_tensor_and_of_the_package():
    page = pydoc.plain(pydoc.render_doc(ct.Tensor))
    for name in ("softmax(", "add_(", "reshape(", "where("):
        assert name in page
    assert "softmax(" in pydoc.plain(pydoc.render_doc(ct)) or "softmax" in dir(ct)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_classes_have_a_signature_and_a_text(kind):
    signature = inspect.signature(kind)
    for word in ("std::", "nullopt", "ct::", "{", "args"):
        assert word not in str(signature), str(signature)
    assert kind.__module__.startswith("cotangent") and kind.__qualname__ == kind.__name__
    page = pydoc.plain(pydoc.render_doc(kind))
    assert kind.__name__ in page and all(name in page for name in signature.parameters)
    if "forward" in vars(kind):
        parameters = list(inspect.signature(kind.forward).parameters)
        assert parameters[0] == "self" and len(parameters) > 1
        assert kind.forward.__name__ == "forward"


def test_members_of_plain_classes_have_a_signature_and_a_text():
    for function, names, words in ((optim.GradScaler.scale, ["self", "loss"], "on the tape"),
                                   (ct.data.CsvTable.numbers, ["self", "names", "dtype"], "NaN"),
                                   (ct.models.LanguageModel.generate, ["self", "prompt", "max_new_tokens"], "with a cache"),
                                   (ct.text.Tokenizer.encode, ["self", "text"], "tokens")):
        assert list(inspect.signature(function).parameters)[:len(names)] == names and words in function.__doc__
    assert {optim.GradScaler, optim.Ema, ct.data.RandomSampler, optim.StepLR} <= set(CLASSES)
    for call in (lambda: optim.GradScaler(speed=1), lambda: optim.Ema([ct.ones(1)], 0.9, True, 3),
                 lambda: ct.data.RandomSampler(3, count="2"), lambda: ct.data.read_csv("a", delimiter=",,")):
        with pytest.raises(TypeError, match=r"^\[\w+\] "):
            call()


def test_signatures_are_what_is_called():
    for kind, args, options in ((nn.Linear, (3, 4), {"bias": False}), (nn.Conv2d, (1, 2, 3), {"padding": "same"}),
                                (nn.GELU, (), {})):
        bound = inspect.signature(kind).bind(*args, **options)
        bound.apply_defaults()
        assert repr(kind(*bound.args, **bound.kwargs)) == repr(kind(*args, **options))
    for name in ("softplus", "elu", "gelu", "hardtanh", "leaky_relu", "sum", "mean", "sort", "flatten", "tril"):
        signature, x = inspect.signature(getattr(ct, name)), ct.tensor([[1.0, -2.0], [0.5, 0.25]])
        bound = signature.bind(x)
        bound.apply_defaults()
        given = {key: value for key, value in bound.arguments.items() if value is not None}
        assert repr(getattr(ct, name)(**given)) == repr(getattr(ct, name)(x))
    optimizer = optim.SGD([ct.zeros(1, requires_grad=True)], lr=0.5)
    assert inspect.signature(optim.CosineAnnealingWarmRestarts).bind(optimizer, 3).arguments["steps"] == 3
    assert inspect.signature(optim.Muon).parameters["ns_coefficients"].default == (3.4445, -4.775, 2.0315)
    assert inspect.signature(nn.LayerNorm).parameters["normalized_shape"].default is inspect.Parameter.empty
    assert inspect.signature(ct.clamp).parameters["low"].default is None


@pytest.mark.parametrize("name", ["softplus", "elu", "hardtanh", "gelu", "layer_norm", "topk", "cross_entropy",
                                  "embedding", "dropout"])
def test_defaults_that_are_shown_are_those_of_cxx(name):
    wanted = {"softplus": (1.0, 20.0), "elu": (1.0,), "hardtanh": (-1.0, 1.0), "gelu": ("none",),
              "layer_norm": (None, None, 1e-5),
              "topk": (-1, True, True), "cross_entropy": (None, -100, "mean", 0.0), "embedding": (None,),
              "dropout": (True, None)}
    defaults = tuple(p.default for p in inspect.signature(getattr(ct, name)).parameters.values()
                     if p.default is not p.empty)
    assert defaults == wanted[name]


def test_results_of_several_tensors_have_names():
    result = ct.sort(ct.tensor([3.0, 1.0]))
    assert result._fields == ("values", "indices") and result.values.tolist() == [1, 3] and result[1] is result.indices
    assert repr(result) == "ValuesIndices(values=tensor([1., 3.]), indices=tensor([1, 0]))"
    assert type(result).__module__ == "cotangent"
    values, indices = result
    assert indices.tolist() == [1, 0]
    assert ct.rnn(ct.ones(2, 1, 3), None or ct.zeros(1, 2), [ct.ones(2, 3), ct.ones(2, 2)])._fields[0] == "output"


def test_results_of_several_tensors_have_a_class_that_is_found():
    assert getattr(ct, type(ct.sort(ct.tensor([3.0, 1.0]))).__name__)
