"""What decoding one token at a time must remember: the keys and values of the tokens before.

B batch · G key/value heads · S tokens so far · K key width · V value width
"""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["KeyValue", "KeyValueCache"]


class KeyValue(NamedTuple):
    """Projected keys and values, heads first: what attention reads of a memory."""

    k: Float[Tensor, "B G S K"]
    v: Float[Tensor, "B G S V"]

    def select(self, rows: Int[Tensor, " C"]) -> "KeyValue":
        """The given rows of the batch, in the given order."""
        return KeyValue(self.k.index_select(0, rows), self.v.index_select(0, rows))


class KeyValueCache:
    """Keys and values that grow by a few tokens at a time.

    The room doubles when it is full, so that n steps copy O(n) and not O(n²).
    """

    def __init__(self) -> None:
        self.length = 0
        self._room: KeyValue | None = None

    def append(self, k: Float[Tensor, "B G T K"], v: Float[Tensor, "B G T V"]) -> KeyValue:
        """Remember `k` and `v`; give back all there is, them included."""
        start, self.length = self.length, self.length + k.shape[2]
        if self._room is None or self.length > self._room.k.shape[2]:
            self._grow(k, v, start)
        assert self._room is not None
        self._room.k[:, :, start : self.length] = k
        self._room.v[:, :, start : self.length] = v
        return self.filled()

    def filled(self) -> KeyValue:
        assert self._room is not None, "an empty cache has no keys yet"
        return KeyValue(self._room.k[:, :, : self.length], self._room.v[:, :, : self.length])

    def select(self, rows: Int[Tensor, " C"]) -> None:
        """Keep the given rows of the batch, in the given order: beams that swap, hypotheses that leave."""
        if self._room is not None:
            self._room = self._room.select(rows)

    def _grow(self, k: Tensor, v: Tensor, filled: int) -> None:
        room = max(16, 2 * self.length)
        old = self._room
        self._room = KeyValue(*(x.new_empty(*x.shape[:2], room, x.shape[3]) for x in (k, v)))
        if old is not None:
            self._room.k[:, :, :filled] = old.k[:, :, :filled]
            self._room.v[:, :, :filled] = old.v[:, :, :filled]
