"""Datasets, loaders, samplers and files, beside PyTorch's."""
import collections
import gzip
import pathlib
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import cotangent as ct
from cotangent import data

Pair = collections.namedtuple("Pair", "x y")


class Squares:
    """An example is a number and its square."""

    def __init__(self, count=10, fails=-1, seconds=0.0):
        self.count, self.fails, self.seconds = count, fails, seconds

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        time.sleep(self.seconds)
        if i == self.fails:
            raise KeyError(f"example {i}")
        return ct.full((2,), float(i)), i * i


def plain(batch):
    """A batch as Python's values, with dtypes where there are some."""
    if isinstance(batch, ct.Tensor):
        return str(batch.dtype).split(".")[-1], batch.tolist()
    if type(batch).__module__ == "torch":
        names = {"float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32", "uint8": "u8", "bool": "boolean"}
        return names[str(batch.dtype).split(".")[-1]], batch.tolist()
    if isinstance(batch, dict):
        return {key: plain(one) for key, one in batch.items()}
    return [plain(one) for one in batch] if isinstance(batch, (tuple, list)) else batch


@pytest.mark.parametrize("examples", [
    [1, 2, 3], [True, False], [np.float32(1), np.float32(2)], [np.float64(1), np.float64(2)],
    [np.int32(1), np.int32(2)], [np.ones(3), np.zeros(3)], [np.ones((2, 2), np.uint8)] * 2, [np.array(1), np.array(2)],
    ["a", "b"], [b"a", b"b"],
    [(1, "a"), (2, "b")], [[1, 2], [3, 4]], [{"x": 1, "y": (2, np.ones(2))}] * 2, [Pair(1, np.ones(2, np.float32))] * 3,
    [(np.arange(6).reshape(2, 3)[::-1], 1)] * 2, [()] * 2], ids=repr)
def test_batches_are_pytorchs(examples):
    torch = pytest.importorskip("torch")
    backwards = isinstance(examples[0], tuple) and examples[0] and isinstance(examples[0][0], np.ndarray)
    theirs = [(x.copy(), y) for x, y in examples] if backwards else examples  # PyTorch refuses negative steps
    ours = data.default_collate(examples)
    assert plain(ours) == plain(torch.utils.data.default_collate(theirs))
    assert isinstance(ours, Pair) == isinstance(examples[0], Pair)


def test_batches_of_floats_and_tensors():
    torch = pytest.importorskip("torch")
    assert plain(data.default_collate([1.5, 2.5])) == ("f32", [1.5, 2.5])
    assert plain(data.default_collate([ct.ones(2), ct.zeros(2)])) == ("f32", [[1, 1], [0, 0]])
    assert plain(data.default_collate([torch.ones(2, dtype=torch.float64)] * 2)) == ("f64", [[1, 1]] * 2)
    frozen = np.ones(2)
    frozen.flags.writeable = False
    assert plain(data.default_collate([frozen] * 2)) == ("f64", [[1, 1]] * 2)


@pytest.mark.parametrize("examples, error", [
    ([np.ones(2), np.ones(3)], ct.ShapeError), ([ct.ones(2), ct.ones(2, dtype=ct.f64)], ct.DTypeError),
    ([(1, 2), (1,)], ct.ShapeError), ([object()], TypeError), ([None, None], TypeError), ([{1, 2}], TypeError)])
def test_what_has_no_batch_is_told_of_collate_fn(examples, error):
    with pytest.raises(error, match="collate_fn"):
        next(iter(data.DataLoader(examples, batch_size=2)))
    assert next(iter(data.DataLoader(examples, batch_size=2, collate_fn=list))) is not None


def numbers(loader):
    """The first number of each example, batch by batch."""
    result = []
    for batch in loader:
        first = batch[0] if isinstance(batch, (tuple, list)) else batch
        result.append(np.rint(first.numpy().reshape(len(first), -1)[:, 0]).astype(int).tolist())
    return result


def torch_dataset():
    import torch

    class Theirs(torch.utils.data.Dataset):
        def __len__(self):
            return 10

        def __getitem__(self, i):
            return torch.full((2,), float(i)), i
    return Theirs()


MANY = {
    "array": lambda: np.arange(10), "tensor": lambda: ct.arange(10), "list": lambda: list(range(10)),
    "own": Squares, "tensors": lambda: data.TensorDataset(np.arange(10), ct.zeros(10)),
    "torch": torch_dataset, "range": lambda: range(10), "subset": lambda: data.Subset(range(20), range(10)),
    "concat": lambda: data.Subset(range(4), range(4)) + data.Subset(range(10), range(4, 10)),
    "images": lambda: data.ImageDataset(ct.arange(10).to(ct.u8).reshape(10, 1, 1), ct.arange(10), std=1 / 255),
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", MANY)
def test_any_dataset_has_the_order_of_its_seed(kind, workers):
    if kind == "torch":
        pytest.importorskip("torch")
    ct.manual_seed(7)
    loader = data.DataLoader(MANY[kind](), batch_size=4, shuffle=True, num_workers=workers)
    ct.manual_seed(7)
    expected = data.DataLoader(np.arange(10), batch_size=4, shuffle=True)
    assert len(loader) == 3
    first, second = numbers(loader), numbers(loader)
    assert first == numbers(expected) and second == numbers(expected) and first != second
    assert sorted(sum(first, [])) == list(range(10))
    assert numbers(data.DataLoader(MANY[kind](), 4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_forms_of_the_call():
    x, y = np.arange(6.0), np.arange(6)
    (a, b), _ = data.DataLoader(x, y, batch_size=3)
    assert a.tolist() == b.tolist() == [0, 1, 2] and a.dtype == ct.f64
    a, b = next(iter(data.DataLoader([(1.0, "one"), (2.0, "two")], batch_size=2)))
    assert a.tolist() == [1, 2] and b == ["one", "two"]
    assert [x.tolist() for x in data.DataLoader(x, 4, True, seed=1)] == [
        x.tolist() for x in data.DataLoader(list(x.astype(float)), batch_size=4, shuffle=True, seed=1)]
    seen = []
    own = data.DataLoader(range(5), batch_size=2, collate_fn=lambda rows: seen.append(rows) or len(rows))
    assert list(own) == [2, 2, 1]
    assert seen == [[0, 1], [2, 3], [4]]

    class Fast(Squares):
        def __getitems__(self, rows):
            return [-i for i in rows]
    assert next(iter(data.DataLoader(Fast(), batch_size=3))).tolist() == [0, -1, -2]
    drawn = [numbers(data.DataLoader(x, batch_size=9, shuffle=True, generator=ct.Generator(seed)))
             for x, seed in ((range(9), 3), (np.arange(9), 3), (range(9), 4))]
    assert drawn[0] == drawn[1] != drawn[2]


class Backwards:
    def __len__(self):
        return 6

    def order(self, epoch):
        return [(9 - i + epoch) % 10 for i in range(6)]


SAMPLERS = {"none": lambda: None, "own": Backwards, "random": lambda: data.RandomSampler(10, replacement=True, seed=3),
            "distributed": lambda: data.DistributedSampler(Squares(), num_replicas=2, rank=1)}


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("kind", ["own", "array"])
def test_a_resumed_epoch_goes_on(kind, workers, sampler):
    def make():
        chosen = SAMPLERS[sampler]()
        return data.DataLoader(MANY[kind](), batch_size=2, shuffle=chosen is None, sampler=chosen, workers=workers)
    whole = make()
    state, rest = None, []
    for epoch in range(3):
        for k, batch in enumerate(whole):
            if state is not None:
                rest.append(plain(batch))
            if (epoch, k) == (1, 1):
                state = whole.state_dict()
    assert (state["epoch"], state["position"]) == (1, 2)
    again = make()
    again.load_state_dict(state)
    assert [plain(batch) for _ in range(2) for batch in again] == rest
    with pytest.raises(ct.ValueError, match="the saved loader has"):
        data.DataLoader(MANY[kind](), batch_size=3).load_state_dict(state)


def test_samplers():
    assert numbers(data.DataLoader(range(10), batch_size=6, sampler=Backwards())) == [[9, 8, 7, 6, 5, 4]]
    assert numbers(data.DataLoader(range(10), batch_size=3, sampler=[4, 1, 4])) == [[4, 1, 4]]
    weighted = data.WeightedRandomSampler([0, 1, 0, 3], 400, replacement=True)
    counts = np.bincount(list(weighted), minlength=4)
    assert len(weighted) == 400 and counts[0] == counts[2] == 0 and 250 < counts[3] < 350
    assert sorted(data.WeightedRandomSampler(np.ones(4), 4, replacement=False)) == [0, 1, 2, 3]
    shares = [data.DistributedSampler(range(9), num_replicas=2, rank=rank, seed=5).order(0) for rank in (0, 1)]
    assert sorted(set(shares[0] + shares[1])) == list(range(9)) and len(shares[0]) == len(shares[1]) == 5
    random = data.RandomSampler(range(5), seed=1)
    assert list(random) == random.order(0) and list(random) == random.order(1) != random.order(0)


def test_pytorchs_samplers_serve():
    torch = pytest.importorskip("torch").utils.data
    sampler = torch.DistributedSampler(range(8), num_replicas=2, rank=0, seed=0)
    loader = data.DataLoader(range(8), batch_size=4, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        expected = list(sampler)
        sampler.set_epoch(99)
        assert numbers(loader) == [expected]


@pytest.mark.parametrize("call, error, match", [
    (lambda: data.DataLoader(iter([1])), TypeError, "__len__"),
    (lambda: data.DataLoader(range(3), batch_size=0), ct.ValueError, "batch_size"),
    (lambda: data.DataLoader(range(3), batch_size="2"), TypeError, "batch_size"),
    (lambda: data.DataLoader(range(3), shuffle=True, sampler=[1]), ct.ValueError, "sampler"),
    (lambda: list(data.DataLoader(range(3), sampler=[3])), ct.IndexError, "example 3"),
    (lambda: data.DataLoader(np.ones(3), np.ones(2)), ct.ShapeError, "axis 0"),
    (lambda: data.DataLoader(range(3), workers=-1), ct.ValueError, "workers is -1"),
    (lambda: data.TensorDataset(), ct.ShapeError, "axis 0"),
    (lambda: len(data.Dataset()), NotImplementedError, "__len__"),
    (lambda: data.ConcatDataset([range(2)])[2], IndexError, "out of range"),
    (lambda: data.RandomSampler(-1), ct.ValueError, "size"),
    (lambda: data.random_split(range(3), [1, 1]), ct.ValueError, "sum"),
])
def test_bad_arguments(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_an_error_comes_at_its_batch_and_threads_end():
    for workers in (0, 2):
        seen = []
        with pytest.raises(KeyError, match="example 5"):
            for x, _ in data.DataLoader(Squares(fails=5), batch_size=2, workers=workers):
                seen.append(x[0, 0].item())
        assert seen == [0, 2]
    before = threading.active_count()
    loader = data.DataLoader(Squares(seconds=0.01), batch_size=1, workers=3)
    for _ in loader:
        assert threading.active_count() > before
        break
    assert threading.active_count() == before
    assert len(numbers(loader)) == 10 and threading.active_count() == before
    for _ in loader:
        with pytest.raises(ct.Error, match="looped"):
            next(iter(loader))
        break


def test_workers_wait_side_by_side():
    start = time.perf_counter()
    assert len(list(data.DataLoader(Squares(20, seconds=0.02), workers=10))) == 20
    assert time.perf_counter() - start < 0.3


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(0)", "sys.exit(0)"])
def test_the_process_ends_in_the_middle_of_a_loop(end):
    text = f"""
import sys, time
import cotangent as ct
class Slow:
    def __len__(self): return 100
    def __getitem__(self, i): time.sleep(0.01); return i
it = iter(ct.data.DataLoader(Slow(), batch_size=2, workers=2))
print(next(it).tolist())
{end}
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1]\n", "")


def test_splits():
    first, second = data.random_split(range(10), [0.75, 0.25], seed=4)
    assert (len(first), len(second)) == (8, 2) and sorted([*first.indices, *second.indices]) == list(range(10))
    assert data.random_split(range(10), [8, 2], seed=4)[1].indices == second.indices
    drawn = [data.random_split(range(10), [5, 5], ct.Generator(seed))[0].indices for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2] and second[0] == second.indices[0]


# ---- Files -----------------------------------------------------------------------------------------------------------

def write_idx(path, array):
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(head + array.tobytes()))


def test_images_and_tables(tmp_path):
    pixels = np.arange(3 * 2 * 2, dtype=np.uint8).reshape(3, 2, 2)
    for part in ("train", "t10k"):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", pixels)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", np.array([2, 0, 1], np.uint8))
    digits = data.idx(tmp_path, train=False, mean=0.5, std=2.0)
    assert len(digits) == digits.classes == 3 and digits.labels.tolist() == [2, 0, 1]
    assert digits.images.shape == (3, 1, 2, 2) and digits.images.dtype == ct.u8
    x, y = next(iter(data.DataLoader(digits, batch_size=2)))
    assert np.allclose(x.numpy()[:, 0], (pixels[:2] / 255 - 0.5) / 2) and y.tolist() == [2, 0]
    assert digits[-1][1].item() == 1 and np.allclose(digits[-1][0].numpy()[0], (pixels[2] / 255 - 0.5) / 2)
    with pytest.raises(IndexError):
        digits[3]
    assert data.read_idx(tmp_path / "train-images-idx3-ubyte.gz").tolist() == pixels.tolist()
    (tmp_path / "test_batch.bin").write_bytes(b"\7" + bytes(3072))
    assert data.cifar10(str(tmp_path), train=False).labels.tolist() == [7]
    (tmp_path / "t.csv").write_text("a,kind,b\n1,x,2.5\n3,w,\n")
    table = data.read_csv(tmp_path / "t.csv")
    labels, names = table.classes("kind")
    assert table.columns == ["a", "kind", "b"] and (labels.tolist(), names) == ([1, 0], ["w", "x"]) and len(table) == 2
    assert np.array_equal(table.numbers(["a", "b"]).numpy(), [[1, 2.5], [3, np.nan]], equal_nan=True)
    with pytest.raises(ct.IoError, match="line 2"):
        table.numbers()
    with pytest.raises(TypeError, match="PathLike"):
        data.read_csv(3)


WHOLE = {
    "flat": {"w": ct.ones(2), "step": 3, "rate": 0.5, "done": True, "name": "n"},
    "tensor": ct.arange(4),
    "nested": {"model": {"fc.weight": ct.ones(2, 3)}, "optimizer": {"0.lr": 0.1, "0.0.step": 4}, "epoch": 3,
               "best": None, "log": [1.5, {"x": ct.zeros(())}], "empty": {}},
    "dots": {"a.b": {"c": 1}, "a": {"b": {}}},
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_saved_is_loaded(tmp_path, name):
    path = pathlib.Path(tmp_path) / "m.safetensors"
    ct.save(WHOLE[name], path)
    assert plain(ct.load(str(path))) == plain(WHOLE[name])
    ct.io.save(str(path), WHOLE[name])
    back = ct.load(path, map_location="cpu", weights_only=True)
    assert plain(back) == plain(WHOLE[name]) == plain(ct.io.load(path))


def test_files_are_others_too(tmp_path):
    torch = pytest.importorskip("torch")
    ct.save({"model": torch.nn.Linear(2, 1).state_dict(), "a": np.ones(2)}, tmp_path / "m.safetensors")
    assert (tmp_path / "m.safetensors").read_bytes()[8:].startswith(b"{") and ct.load(
        tmp_path / "m.safetensors")["model"]["weight"].shape == (1, 2)
    ct.io.save_npy(tmp_path / "a.npy", ct.ones(2))
    np.savez(tmp_path / "a.npz", x=np.ones(2))
    assert ct.io.load_npy(tmp_path / "a.npy").tolist() == ct.io.load_npz(tmp_path / "a.npz")["x"].tolist() == [1, 1]
    tokens = ct.text.CharTokenizer.from_text("abc")
    tokens.save(tmp_path / "tokenizer.json")
    assert ct.text.load_tokenizer(tmp_path / "tokenizer.json").encode("ba") == tokens.encode("ba")


@pytest.mark.parametrize("obj, error, match", [
    ({"f": print}, TypeError, "f is a builtin"), ({1: ct.ones(1)}, TypeError, "key 1"),
    (ct.nn.Linear(1, 1), TypeError, "state_dict"), ({"a.b": 1, "a": {"b": 2}}, ValueError, "'a.b'"),
    ({"n": 2 ** 70}, ValueError, "64 bits"), ({"s": {1, 2}}, TypeError, "set")])
def test_what_is_not_savable(tmp_path, obj, error, match):
    with pytest.raises(error, match=match):
        ct.save(obj, tmp_path / "m")
    assert not (tmp_path / "m").exists()
    with pytest.raises(TypeError, match="path"):
        ct.save({}, 3)
