"""Batches of tensors that have examples along axis 0."""
from ._core import Tensor, from_dlpack, _data


class DataLoader:
    """Batches, made anew in every loop: for x, y in DataLoader(images, labels, batch_size=128, shuffle=True).

    The order depends on the seed (ct.manual_seed) and the epoch alone. Arguments: batch_size=1, shuffle=False,
    drop_last=False, workers=0, prefetch="cpu" (where batches are wanted), prefetch_batches=2.
    """

    def __init__(self, *tensors, **options):
        self._core = _data.Loader([t if isinstance(t, Tensor) else from_dlpack(t) for t in tensors], **options)

    def __len__(self):
        return len(self._core)

    def __iter__(self):
        self._core.begin()
        try:
            while (batch := self._core.next()) is not None:
                yield tuple(batch)
        finally:
            self._core.end()

    def state_dict(self):
        return self._core.state_dict()

    def load_state_dict(self, state):
        self._core.load_state_dict(state)
