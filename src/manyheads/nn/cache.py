"""The cache for decoding one token at a time: the keys and values of the tokens so far.

B batch · G key/value heads · S tokens so far · K key width · V value width
"""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from manyheads.errors import TensorError

__all__ = ["KeyValue", "KeyValueCache"]


class KeyValue(NamedTuple):
    """Projected keys and values, heads first, as attention reads them. (Packed, they are (M, G, K) and (M, G, V).)"""

    k: Float[Tensor, "*batch G S K"]
    v: Float[Tensor, "*batch G S V"]

    def select(self, rows: Int[Tensor, " C"]) -> "KeyValue":
        """The given rows of the batch, in the given order."""
        if self.k.ndim != 4:
            raise TensorError(f"selecting rows needs a padded memory, got packed keys of shape {tuple(self.k.shape)}")
        return KeyValue(self.k.index_select(0, rows), self.v.index_select(0, rows))


class KeyValueCache:
    """Keys and values that grow by a few tokens at a time.

    The buffer doubles when it is full, so that n steps copy O(n) tokens and not O(n²).
    For inference, under `torch.no_grad()`: the buffer is written in place, which a backward pass does not allow.
    """

    def __init__(self) -> None:
        self.length = 0
        self._room: KeyValue | None = None

    def append(self, k: Float[Tensor, "B G T K"], v: Float[Tensor, "B G T V"]) -> KeyValue:
        """Append `k` and `v`; return all keys and values so far, the new ones included."""
        self._check(k, v)
        length = self.length + k.shape[2]
        if self._room is None or length > self._room.k.shape[2]:
            self._room = self._grown(k, v, 2 * length)
        self._room.k[:, :, self.length : length] = k
        self._room.v[:, :, self.length : length] = v
        self.length = length
        return KeyValue(self._room.k[:, :, :length], self._room.v[:, :, :length])

    def select(self, rows: Int[Tensor, " C"]) -> None:
        """Keep the given rows of the batch, in the given order: for beams that swap and hypotheses that leave."""
        if self._room is not None:
            self._room = self._room.select(rows)

    def _check(self, k: Tensor, v: Tensor) -> None:
        """Raise unless keys and values match each other and those already in the cache."""
        if k.shape[:3] != v.shape[:3]:
            raise TensorError(f"there must be as many keys as values, got {tuple(k.shape)} and {tuple(v.shape)}")
        for name, new, old in zip(("keys", "values"), (k, v), self._room or (k, v), strict=True):
            there, given = (
                (old.shape[0], old.shape[1], old.shape[3], old.dtype),
                (*new.shape[:2], new.shape[3], new.dtype),
            )
            if there != given:
                raise TensorError(
                    f"new {name} must match the cache, (batch, heads, width, dtype) = {there}, got {given}"
                )

    def _grown(self, k: Tensor, v: Tensor, length: int) -> KeyValue:
        """A buffer for `length` tokens, with the keys and values so far."""
        room = KeyValue(*(x.new_empty(*x.shape[:2], max(16, length), x.shape[3]) for x in (k, v)))
        if self._room is not None:
            for new, old in zip(room, self._room, strict=True):
                new[:, :, : self.length] = old[:, :, : self.length]
        return room
