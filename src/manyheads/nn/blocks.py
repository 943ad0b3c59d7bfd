"""The two blocks of the Transformer, and stacks of them.

    encoder block   self-attention, feed-forward (if causal, it is the block of a language model)
    decoder block   masked self-attention, cross-attention to the encoder's output, feed-forward

A block is given its layers ready-made, and puts a `Residual` around each.
To collect the weights of every head, pass a list: each attention appends its own.

D model width
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.errors import TensorError
from manyheads.nn.add_norm import suits
from manyheads.nn.cache import KeyValue, KeyValueCache
from manyheads.nn.layout import Layout, Padded
from manyheads.nn.multihead import MultiHeadAttention
from manyheads.nn.norms import INNER
from manyheads.nn.residual import Hidden, Layer, PreNorm, Residual
from manyheads.nn.stream import begin
from manyheads.nn.unchanged import unchanged

if TYPE_CHECKING:
    from manyheads.nn.beams import BeamCache, BeamPast

__all__ = ["Decoder", "DecoderBlock", "DecoderCache", "Encoder", "EncoderBlock", "Memory", "streams"]

Weights = list[Tensor]


@dataclass(frozen=True, eq=False)
class Memory:
    """The encoder's output for the decoder: the states that each decoder block reads, and their layout."""

    states: tuple[Float[Tensor, "*batch D"], ...]
    layout: Layout

    def padded(self) -> "Memory":
        """The same memory, padded, as decoding step by step reads it."""
        if isinstance(self.layout, Padded):
            return self
        return Memory(tuple(map(self.layout.pad, self.states)), self.layout.padded())


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward, each inside a residual of its own, which `residual` builds.

    residual = partial(PreNorm, partial(nn.LayerNorm, 64), dropout=0.1)
    block = EncoderBlock(MultiHeadAttention(64, 4), FeedForward(64, 256), residual)
    y = block(x)
    """

    def __init__(self, attention: MultiHeadAttention, feedforward: nn.Module, residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.attention, self.feedforward = attention, feedforward
        self.around_attention, self.around_feedforward = residual(), residual()

    def forward(
        self,
        x: Hidden,
        layout: Layout | None = None,
        weights: Weights | None = None,
        cache: KeyValueCache | None = None,
    ) -> Hidden:
        layout = layout or Padded.like(cast(Tensor, x), start=0 if cache is None else cache.length)
        attend = partial(collect(self.attention, weights), layout=layout, cache=cache)
        x = self.around_attention(x, attend, layout)
        return self.around_feedforward(x, self.feedforward, layout)


class DecoderBlock(nn.Module):
    """Causal self-attention, then cross-attention to the memory, then feed-forward, each inside a residual.

    block = DecoderBlock(
        MultiHeadAttention(64, 4, causal=True), MultiHeadAttention(64, 4), FeedForward(64, 256), residual
    )
    y = block(x, None, memory)
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        cross: MultiHeadAttention,
        feedforward: nn.Module,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention, self.cross, self.feedforward = attention, cross, feedforward
        self.around_attention, self.around_cross, self.around_feedforward = residual(), residual(), residual()

    def forward(
        self,
        x: Hidden,
        layout: Layout | None,
        memory: Float[Tensor, "*memory D"] | KeyValue,
        memory_layout: Layout | None = None,
        cache: KeyValueCache | None = None,
        weights: Weights | None = None,
        cross_weights: Weights | None = None,
        readers: int = 1,
    ) -> Hidden:
        """readers   how many neighbouring rows of x read the same row of the memory"""
        layout = layout or Padded.like(cast(Tensor, x), start=0 if cache is None else cache.length)
        attend = partial(collect(self.attention, weights), layout=layout, cache=cache)
        read = self._reader(memory, layout, memory_layout, cross_weights, readers)
        return self._sublayers(x, attend, read, layout)

    def _reader(
        self,
        memory: Tensor | KeyValue,
        layout: Layout,
        memory_layout: Layout | None,
        weights: Weights | None,
        readers: int,
    ) -> Layer:
        if readers == 1:
            return partial(collect(self.cross, weights), memory=memory, layout=layout, memory_layout=memory_layout)
        if weights is not None:
            raise TensorError(f"weights can be collected where rows share no memory, got {readers} readers")
        return together(partial(self.cross, memory=memory, memory_layout=memory_layout), readers)

    def step_beams(
        self, x: Float[Tensor, "B k D"], layout: Padded, memory: KeyValue, memory_layout: Padded, past: "BeamPast"
    ) -> Float[Tensor, "B k D"]:
        """One step for the newest token of each of k beams per sentence, which share the memory of their sentence."""
        attend = partial(self.attention.step_beams, layout=layout, past=past)
        read = partial(self.cross, memory=memory, layout=layout, memory_layout=memory_layout)
        return cast(Tensor, self._sublayers(x, attend, read, layout))

    def _sublayers(self, x: Hidden, attend: Layer, read: Layer, layout: Layout) -> Hidden:
        x = self.around_attention(x, attend, layout)
        x = self.around_cross(x, read, layout)
        return self.around_feedforward(x, self.feedforward, layout)


class Stack(nn.Module):
    """Blocks in a row, then a norm (`unchanged` after post-norm blocks, which end on one).

    begin   applied to the hidden states before the first block: `unchanged`, or within `streams`, `stream.begin`
    """

    def __init__(self, blocks: Iterable[nn.Module], norm: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(blocks), norm
        self.begin: Callable[[Tensor], Hidden] = unchanged

    def can_stream(self) -> bool:
        """True if all norms are pre-norms of rows that suit the kernel, and there is no drop path: it supports none."""
        residuals = [module for module in self.modules() if isinstance(module, Residual)]
        norms = [self.norm, *(around.norm for around in residuals)]
        return all(isinstance(norm, INNER) and suits(norm.weight) for norm in norms) and all(
            isinstance(around, PreNorm) and around.drop_path is unchanged for around in residuals
        )


@contextmanager
def streams(model: nn.Module) -> Iterator[None]:
    """Within this context, the model's stacks that can stream do so: each sum waits for the next norm (stream.py)."""
    stacks = [module for module in model.modules() if isinstance(module, Stack) and module.can_stream()]
    for stack in stacks:
        stack.begin = begin
    try:
        yield
    finally:
        for stack in stacks:
            stack.begin = unchanged


class Encoder(Stack):
    """The stack of an encoder, or of a language model, whose attention is causal.

    A language model can read a few tokens at a time, with a cache for each block.
    """

    def forward(
        self,
        x: Float[Tensor, "*batch D"],
        layout: Layout,
        weights: Weights | None = None,
        cache: Sequence[KeyValueCache] | None = None,
    ) -> Float[Tensor, "*batch D"]:
        past = cache if cache is not None else [None] * len(self.blocks)
        hidden = self.begin(x)
        for block, seen in zip(self.blocks, past, strict=True):
            hidden = block(hidden, layout, weights, seen)
        return self.norm(hidden)

    def states(
        self, x: Float[Tensor, "*batch D"], layout: Layout, weights: Weights | None = None
    ) -> list[Float[Tensor, "*batch D"]]:
        """The output of every block, before the norm."""
        states = []
        for block in self.blocks:
            x = block(x, layout, weights)
            states.append(x)
        return states


@dataclass(eq=False)
class DecoderCache:
    """All that decoding must remember: what each block has seen, and the keys and values it reads from the memory.

    readers   how many neighbouring rows of the batch read the same row of the memory
    """

    past: list[KeyValueCache]
    memory: list[KeyValue]
    memory_layout: Padded
    readers: int = 1

    @property
    def length(self) -> int:
        return self.past[0].length

    @property
    def batch(self) -> int:
        return self.memory_layout.batch * self.readers

    def share(self, readers: int) -> None:
        """Let every row of the memory be read by this many rows: hypotheses of one source. Nothing is copied."""
        if self.length:
            raise TensorError(f"rows can share a memory before anything is written, got {self.length} tokens")
        self.readers *= readers

    def reorder(self, rows: Int[Tensor, " B"]) -> None:
        """Reorder the beams within sentences: what they have written moves, what they read stays."""
        for past in self.past:
            past.select(rows)

    def select(self, rows: Int[Tensor, " C"]) -> None:
        """Keep the given rows of the batch, in the given order: finished sentences leave, with all their readers."""
        self.reorder(rows)
        sources = rows if self.readers == 1 else rows[:: self.readers] // self.readers
        self.memory = [memory.select(sources) for memory in self.memory]
        self.memory_layout = self.memory_layout.select(sources)


class Decoder(Stack):
    def forward(
        self,
        x: Float[Tensor, "*batch D"],
        layout: Layout,
        memory: Sequence[Float[Tensor, "*memory D"] | KeyValue],
        memory_layout: Layout,
        cache: Sequence[KeyValueCache] | None = None,
        weights: Weights | None = None,
        cross_weights: Weights | None = None,
        readers: int = 1,
    ) -> Float[Tensor, "*batch D"]:
        past = cache if cache is not None else [None] * len(self.blocks)
        hidden = self.begin(x)
        for block, read, seen in zip(self.blocks, memory, past, strict=True):
            hidden = block(hidden, layout, read, memory_layout, seen, weights, cross_weights, readers)
        return self.norm(hidden)

    def step_beams(self, x: Float[Tensor, "B k D"], cache: "BeamCache", steps: int) -> Float[Tensor, "B k D"]:
        """One step for the newest token of each of k beams per sentence, which attends to the first `steps` steps."""
        layout, memory_layout = cache.layout, cache.memory_layout
        for block, memory, past in zip(self.blocks, cache.memory, cache.look(steps), strict=True):
            x = cast(DecoderBlock, block).step_beams(x, layout, memory, memory_layout, past)
        return self.norm(x)

    def start(self, memory: Memory) -> DecoderCache:
        """An empty cache for decoding from `memory`, whose keys and values are computed here, once."""
        memory = memory.padded()
        blocks = cast(Iterable[DecoderBlock], self.blocks)
        read = [b.cross.keys_values(state, memory.layout) for b, state in zip(blocks, memory.states, strict=True)]
        return DecoderCache([KeyValueCache() for _ in self.blocks], read, cast(Padded, memory.layout))


def collect(attention: MultiHeadAttention, weights: Weights | None) -> Callable[..., Tensor]:
    """`attention`, appending its weights to the list; `attention` itself if there is no list."""
    if weights is None:
        return attention
    if not isinstance(weights, list):
        raise TensorError(f"weights must be a list to collect them in, got {type(weights).__name__}", hint="weights=[]")

    def attend(x: Tensor, **options: Any) -> Tensor:
        y, seen = attention(x, return_weights=True, **options)
        weights.append(seen)
        return y

    return attend


def together(read: Callable[..., Tensor], readers: int) -> Layer:
    """`read`, where neighbouring rows share a memory: they ask as one row, one after the other."""

    def ask(x: Float[Tensor, "R T D"]) -> Float[Tensor, "R T D"]:
        return read(x.unflatten(0, (-1, readers)).flatten(1, 2)).view_as(x)

    return ask
