"""What decoding one token at a time must remember: the keys and values of the tokens before.

B batch · G key/value heads · S tokens so far · K key width · V value width
"""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from manyheads.errors import TensorError

__all__ = ["KeyValue", "KeyValueCache"]


class KeyValue(NamedTuple):
    """Projected keys and values, heads first: what attention reads of a memory. (Of a packed one: (M, G, K), (M, G, V).)"""

    k: Float[Tensor, "*batch G S K"]
    v: Float[Tensor, "*batch G S V"]

    def select(self, rows: Int[Tensor, " C"]) -> "KeyValue":
        """The given rows of the batch, in the given order."""
        if self.k.ndim != 4:
            raise TensorError(f"rows are selected from a padded memory, got packed keys of shape {tuple(self.k.shape)}")
        return KeyValue(self.k.index_select(0, rows), self.v.index_select(0, rows))


class KeyValueCache:
    """Keys and values that grow by a few tokens at a time.

    The room doubles when it is full, so that n steps copy O(n) and not O(n²).
    For inference, under `torch.no_grad()`: it is written in place, which a backward pass refuses.
    """

    def __init__(self) -> None:
        self.length = 0
        self._room: KeyValue | None = None

    def append(self, k: Float[Tensor, "B G T K"], v: Float[Tensor, "B G T V"]) -> KeyValue:
        """Remember `k` and `v`; give back all there is, them included."""
        self._check(k, v)
        length = self.length + k.shape[2]
        if self._room is None or length > self._room.k.shape[2]:
            self._room = self._grown(k, v, 2 * length)
        self._room.k[:, :, self.length : length] = k
        self._room.v[:, :, self.length : length] = v
        self.length = length
        return KeyValue(self._room.k[:, :, :length], self._room.v[:, :, :length])

    def select(self, rows: Int[Tensor, " C"]) -> None:
        """Keep the given rows of the batch, in the given order: beams that swap, hypotheses that leave."""
        if self._room is not None:
            self._room = self._room.select(rows)

    def _check(self, k: Tensor, v: Tensor) -> None:
        """Keys and values that belong together, and to those that are here."""
        if k.shape[:3] != v.shape[:3]:
            raise TensorError(f"keys and values must be as many, got {tuple(k.shape)} and {tuple(v.shape)}")
        for name, new, old in zip(("keys", "values"), (k, v), self._room or (k, v), strict=True):
            there, given = (
                (old.shape[0], old.shape[1], old.shape[3], old.dtype),
                (*new.shape[:2], new.shape[3], new.dtype),
            )
            if there != given:
                raise TensorError(f"a cache of {name} (batch, heads, width, dtype) {there} must go on so, got {given}")

    def _grown(self, k: Tensor, v: Tensor, length: int) -> KeyValue:
        """Room for `length` tokens, with what there is so far."""
        room = KeyValue(*(x.new_empty(*x.shape[:2], max(16, length), x.shape[3]) for x in (k, v)))
        if self._room is not None:
            for new, old in zip(room, self._room, strict=True):
                new[:, :, : self.length] = old[:, :, : self.length]
        return room
