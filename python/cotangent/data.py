"""Datasets, and batches of them: any object with __len__ and __getitem__ is a dataset."""
import bisect as _bisect
import itertools as _itertools
from collections import deque as _deque
from collections.abc import Mapping as _Mapping
from concurrent.futures import ThreadPoolExecutor as _ThreadPoolExecutor
from typing import Any, Callable, Iterator, Optional, Sequence

import numpy as _numpy

from . import _core
from ._array import as_tensor as _as_tensor
from ._array import tensor as _tensor
from ._core import Tensor, _data
from ._core._grad import Generator as _Generator
from ._core._data import (CsvTable, DistributedSampler, ImageDataset, RandomSampler, WeightedRandomSampler, read_csv,
                          read_idx)

__all__ = ["ConcatDataset", "CsvTable", "DataLoader", "Dataset", "DistributedSampler", "ImageDataset", "RandomSampler",
           "Sampler", "Subset", "TensorDataset", "WeightedRandomSampler", "cifar10", "default_collate", "idx",
           "random_split", "read_csv", "read_idx"]


def idx(folder: Any, train: bool = True, mean: float = 0.0, std: float = 1.0) -> ImageDataset:
    """The data set of a folder in MNIST's layout, packed or not. Throws IoError."""
    return _data._idx(folder, "train" if train else "test", mean, std)


def cifar10(folder: Any, train: bool = True, mean: float = 0.0, std: float = 1.0) -> ImageDataset:
    """The data set of a folder in CIFAR-10's binary layout. Throws IoError."""
    return _data._cifar10(folder, "train" if train else "test", mean, std)


def _next_order(self: Any) -> Iterator[int]:
    epoch = vars(self).get("epoch", 0)
    self.epoch = epoch + 1
    return iter(self.order(epoch))


def _set_epoch(self: Any, epoch: int) -> None:
    self.epoch = epoch


def _example(self: Any, i: int) -> tuple[Tensor, Tensor]:
    return self._get(i + len(self) if i < 0 else i)  # type: ignore[no-any-return]


setattr(ImageDataset, "__getitem__", _example)
for _kind in (RandomSampler, WeightedRandomSampler, DistributedSampler):  # list(sampler) is its next epoch
    setattr(_kind, "__iter__", _next_order)
    setattr(_kind, "set_epoch", _set_epoch)


class Dataset:
    """Derive, and give it __len__ and __getitem__(i)."""

    def __len__(self) -> int:
        raise NotImplementedError(f"[{type(self).__name__}] it has no __len__(); define it: the number of examples")

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"[{type(self).__name__}] it has no __getitem__(); define it: an example")

    def __add__(self, other: Any) -> "ConcatDataset":
        return ConcatDataset([self, other])


class TensorDataset(Dataset):
    """Tensors or arrays whose first axes belong together: examples are tuples."""

    def __init__(self, *tensors: Any):
        self.tensors = tuple(map(_as_tensor, tensors))
        if not tensors or len({t.shape[:1] for t in self.tensors}) != 1 or self.tensors[0].ndim == 0:
            raise _core.ShapeError(f"[TensorDataset] the tensors have the shapes {[t.shape for t in self.tensors]}; as many "
                              "examples along axis 0 are wanted in all")

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: Any) -> Any:
        return tuple(t[index] for t in self.tensors)


class Subset(Dataset):
    """The examples of another dataset with these numbers, in this order."""

    def __init__(self, dataset: Any, indices: Sequence[int]):
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]


class ConcatDataset(Dataset):
    """Datasets, one after the other."""

    def __init__(self, datasets: Any):
        self.datasets = list(datasets)
        self._ends = list(_itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> Any:
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise _core.IndexError(f"[ConcatDataset] example {index} is out of range; there are {len(self)}")
        which = _bisect.bisect_right(self._ends, at)
        return self.datasets[which][at - self._ends[which] + len(self.datasets[which])]


def random_split(dataset: Any, lengths: Sequence[float], generator: Optional[_Generator] = None,
                 seed: int = 0) -> list[Subset]:
    """The dataset cut at random into Subsets of these lengths, or shares: random_split(digits, [0.9, 0.1]).

    The cut depends on the seed alone, or is drawn from a generator.
    """
    return [Subset(dataset, one) for one in _data.random_split_indices(len(dataset), list(lengths), seed, generator)]


class Sampler:
    """Base of samplers, which give an epoch's examples and their order.

    A class derived from it has __len__, and __iter__ or order(epoch).

    With order(epoch), or set_epoch(epoch) before __iter__, a run that is resumed goes on as the uninterrupted one.
    """

    def __init__(self, data_source: Any = None):
        pass


def _tree(leaf: Callable[[Any], Any], examples: Sequence[Any]) -> Any:
    """Collates examples of one structure: applies `leaf` to the values at each place of their tuples, lists and dicts."""
    first = examples[0]
    if isinstance(first, _Mapping):
        return {key: _tree(leaf, [one[key] for one in examples]) for key in first}
    if not isinstance(first, (tuple, list)):
        return leaf(examples)
    if any(len(one) != len(first) for one in examples):
        raise _core.ShapeError(f"[DataLoader] the examples of a batch are sequences of the lengths "
                               f"{sorted({len(one) for one in examples})}; make them one, or pass collate_fn=, which is "
                               "given the list of examples")
    columns = [_tree(leaf, column) for column in zip(*examples)]
    return type(first)(*columns) if hasattr(first, "_fields") else type(first)(columns)


def _stacked(examples: Sequence[Any]) -> Any:
    first = examples[0]
    if isinstance(first, (str, bytes)):
        return list(examples)
    if isinstance(first, (bool, int, float, _numpy.generic)):
        return _tensor(list(examples))
    if not isinstance(first, Tensor) and not hasattr(first, "__dlpack__"):
        raise TypeError(f"[DataLoader] an example has a {type(first).__name__}; numbers, tensors, arrays, text and "
                        "tuples, lists and dicts of them are stacked: make it one of these, or pass collate_fn=")
    try:
        return _data.stack_examples([_as_tensor(one) for one in examples])
    except (_core.ShapeError, _core.DTypeError) as error:
        raise type(error)(f"{error}: make them so, or pass collate_fn=, which is given their list") from None


def default_collate(examples: Sequence[Any]) -> Any:
    """A batch of examples, as PyTorch's: tensors and arrays are stacked, numbers become a tensor, text a list.

    Tuples, lists, dicts and named tuples become batches of their members. Python's floats become f32 (PyTorch's are
    float64), as ct.tensor() has it; NumPy's numbers and arrays keep their dtype.
    """
    return _tree(_stacked, examples)


class DataLoader:
    """Batches of a dataset, made anew in every loop: for x, y in DataLoader(dataset, batch_size=128, shuffle=True).

    A dataset is an object with __len__ and __getitem__, whose examples collate_fn (else default_collate) makes a batch
    of; or an array, or several: DataLoader(images, labels), whose rows C++ gathers. Each loop is an epoch. The order
    depends on the seed (of ct.manual_seed() when the loader is made, of `generator`, or `seed`) and the epoch alone.
    state_dict() inside of a loop remembers the batches that were handed out.

    workers (or num_workers) threads make prefetch_batches batches ahead; those of a dataset in Python run side by side
    where it waits, or is in NumPy or in here. An exception comes when its batch is due. `prefetch` is the device that
    batches are wanted on; those of arrays are pinned on the way there, whatever pin_memory is. A sampler, or any
    iterable with a length, says which examples an epoch has. One loop at a time.
    """

    def __init__(self, dataset: Any, *more: Any, batch_size: int = 1, shuffle: bool = False, sampler: Any = None,
                 drop_last: bool = False, collate_fn: Optional[Callable[[list[Any]], Any]] = None, workers: int = 0,
                 num_workers: Optional[int] = None, prefetch: str = "cpu", prefetch_batches: int = 2,
                 generator: Optional[_Generator] = None, seed: Optional[int] = None, pin_memory: bool = False):
        if more and isinstance(more[0], int) and len(more) <= 2:  # as PyTorch: DataLoader(dataset, 32, True)
            batch_size, shuffle, more = more[0], (*more[1:], shuffle)[0], ()
        dataset = TensorDataset(dataset, *more) if more else dataset
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise TypeError(f"[DataLoader] the dataset is a {type(dataset).__name__}; an object with __len__ and "
                            "__getitem__ is wanted, or arrays")
        self._single = hasattr(dataset, "__dlpack__") and getattr(dataset.dtype, "kind", "f") in "fiub"
        source: Any = None
        if collate_fn is None:
            source = ([_as_tensor(dataset)] if self._single else dataset if isinstance(dataset, ImageDataset) else
                      list(dataset.tensors) if type(dataset) is TensorDataset else None)
        workers = workers if num_workers is None else num_workers
        if not 0 <= workers <= 1024:
            raise _core.ValueError(f"[DataLoader] workers is {workers}; it must lie in [0, 1024]")
        self.dataset, self.batch_size, self.sampler, self.collate_fn = dataset, batch_size, sampler, collate_fn
        self._native, self._ahead, self._workers, self._device = source is not None, 0, workers, prefetch
        self._most = max(prefetch_batches, workers)
        self._core = _data.Loader(
            source, len(dataset), None if sampler is None else len(sampler), generator, seed=seed, batch_size=batch_size,
            shuffle=shuffle, drop_last=drop_last, workers=workers if self._native else 0,
            prefetch=prefetch if self._native else "cpu", prefetch_batches=prefetch_batches)

    def __len__(self) -> int:
        return len(self._core)

    def _order(self) -> list[int]:
        if hasattr(self.sampler, "order"):
            return self.sampler.order(self._core.epoch)  # type: ignore[no-any-return]
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(self._core.epoch)
        return [] if self.sampler is None else list(self.sampler)

    def __iter__(self) -> Iterator[Any]:
        self._core.begin(self._order())
        try:
            if not self._native:
                yield from self._collated()
            while (batch := self._core.next()) is not None:
                yield batch[0] if self._single else tuple(batch)
        finally:
            self._ahead = 0
            self._core.end()

    def _batch(self, rows: list[int]) -> Any:
        several = getattr(self.dataset, "__getitems__", None)
        examples = several(rows) if several else [self.dataset[i] for i in rows]
        batch = (self.collate_fn or default_collate)(examples)
        if self._device == "cpu":
            return batch
        return _tree(lambda one: one[0].to(self._device) if isinstance(one[0], Tensor) else one[0], [batch])

    def _collated(self) -> Iterator[Any]:
        # Behind the last batch the epoch ends only when the loop asks for more, so no further one is asked for before.
        numbers = (self._core.next()[0].tolist() for _ in range(len(self._core) - self._core.position))
        if self._workers == 0:
            yield from map(self._batch, numbers)
            return
        pool = _ThreadPoolExecutor(self._workers, "DataLoader")
        try:
            waiting = _deque(pool.submit(self._batch, rows) for rows in _itertools.islice(numbers, self._most))
            while waiting:
                waiting.extend(pool.submit(self._batch, rows) for rows in _itertools.islice(numbers, 1))
                batch = waiting.popleft().result()
                self._ahead = len(waiting)
                yield batch
        finally:
            pool.shutdown(cancel_futures=True)

    def state_dict(self) -> dict[str, Any]:
        """Inside of a loop the batches handed out so far; outside the next epoch."""
        state = self._core.state_dict()
        return {**state, "position": state["position"] - self._ahead}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Throws ValueError for the state of other data or options."""
        self._core.load_state_dict(state)
