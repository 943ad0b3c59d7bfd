"""What cannot be is refused with one clear sentence: the rule, the value, where it came from."""

import pytest
import torch

from manyheads import OptionError, TensorError
from manyheads.nn import (
    DropPath,
    EncoderBlock,
    FeedForward,
    KeyValueCache,
    LearnedPositions,
    MultiHeadAttention,
    Packed,
    Padded,
    PreNorm,
    Rotary,
    SinusoidalPositions,
    attention,
    packed_attention,
    window_mask,
)
from manyheads.nn.norms import make_norm

pytestmark = pytest.mark.plain

BUILT = {
    "heads must divide the width, got width 10 and 3 heads": lambda: MultiHeadAttention(10, 3),
    "heads must be a multiple of kv_heads, both at least 1, got 4 and 3": lambda: MultiHeadAttention(8, 4, kv_heads=3),
    "heads must be a multiple of kv_heads, both at least 1, got 0 and 0": lambda: MultiHeadAttention(8, 0),
    "key_width must be at least 1, got 0": lambda: MultiHeadAttention(8, 2, key_width=0),
    "score must be one of 'scaled-dot', 'dot', 'additive', got 'cosine'": lambda: MultiHeadAttention(
        8, 2, score="cosine"
    ),
    "a window is (left, right), each None or at least 0, got (-1, 2)": lambda: MultiHeadAttention(8, 2, window=(-1, 2)),
    "dropout is a probability, at least 0 and below 1, got 1.5": lambda: MultiHeadAttention(8, 2, dropout=1.5),
    "activation must be one of 'relu', 'gelu', 'gelu-tanh', 'silu', 'swiglu', got 'gleu'": lambda: FeedForward(
        8, 16, activation="gleu"
    ),
    "normaliser must be one of 'layer', 'rms', got 'batch'": lambda: make_norm("batch", 8, 1e-5),
    "drop_path is a probability, at least 0 and below 1, got -0.1": lambda: DropPath(-0.1),
    "rotary positions turn pairs on 2 axes: the key width must be a multiple of 4, got 6": lambda: Rotary(6, axes=2),
    "axes must be at least 1, got 0": lambda: Rotary(8, axes=0),
    "rotary positions must be built for the key width 4, got Rotary(8)": lambda: MultiHeadAttention(
        8, 2, rotary=Rotary(8)
    ),
    "width must be at least 1, got 0": lambda: MultiHeadAttention(0, 4),
    "hidden must be at least 1, got 0": lambda: FeedForward(8, 0),
    "a window is (left, right), each None or at least 0, got 64": lambda: MultiHeadAttention(8, 2, window=64),
    "a window is (left, right), each None or at least 0, got (2.5, 1)": lambda: window_mask(5, window=(2.5, 1)),
    "rows must be padded to at least the longest sequence, 5, got 3": lambda: Padded.from_lengths([5], to=3),
    "lengths must be plain whole numbers, got 5.0": lambda: Padded.from_lengths([5.0, 3.0]),
    "lengths must be plain whole numbers, got a tensor": lambda: Packed.from_lengths(torch.tensor([3, 2])),
    "sinusoidal positions come in pairs: the width must be even, got 7": lambda: SinusoidalPositions(7),
    "a table of learned positions needs at least one row, got 0": lambda: LearnedPositions(0, 8),
    "a sequence needs at least one token, got length 0 in row 1": lambda: Packed.from_lengths([3, 0]),
    "a sequence needs at least one token, got length -2 in row 0": lambda: Padded.from_lengths([-2]),
    "a batch needs at least one sequence, got no lengths": lambda: Padded.from_lengths([]),
    "a window is (left, right), each None or at least 0, got (1, 2, 3)": lambda: window_mask(5, window=(1, 2, 3)),
}


@pytest.mark.parametrize("build", BUILT.values(), ids=BUILT)
def test_refused_when_built(build, request):
    with pytest.raises(OptionError) as error:
        build()
    assert error.value.message == request.node.callspec.id


def qkv(q=(2, 4, 5, 8), k=(2, 4, 6, 8), v=(2, 4, 6, 8), dtype=torch.float32):
    return torch.zeros(q, dtype=dtype), torch.zeros(k), torch.zeros(v)


X = torch.zeros(2, 5, 8)
MHA = MultiHeadAttention(8, 2)
CALLED = {
    "attention takes q (B,H,T,K)": lambda: attention(*qkv(q=(2, 5, 8))),
    "q and k must agree in batch and width": lambda: attention(*qkv(q=(2, 4, 5, 7))),
    "k and v in batch, heads and length": lambda: attention(*qkv(v=(2, 4, 7, 8))),
    "query heads must be a multiple of key/value heads": lambda: attention(*qkv(k=(2, 3, 6, 8), v=(2, 3, 6, 8))),
    "q, k and v must have the same floating-point dtype, got torch.float16": lambda: attention(
        *qkv(dtype=torch.float16)
    ),
    "a mask must be boolean, True = may attend, got torch.float32": lambda: attention(*qkv(), mask=torch.zeros(5, 6)),
    "a mask must broadcast to (B, H, T, S) = (2, 4, 5, 6), got (2, 6)": lambda: attention(
        *qkv(), mask=torch.ones(2, 6, dtype=torch.bool)
    ),
    "(2, 4, 5, 6), got (1, 2, 1, 5, 6)": lambda: attention(*qkv(), mask=torch.ones(1, 2, 1, 5, 6, dtype=torch.bool)),
    "x must be padded (B, T, D) with D = 8, got (2, 5, 9)": lambda: MHA(torch.zeros(2, 5, 9)),
    "x must be packed (N, D) with D = 8, got (2, 5, 8)": lambda: MHA(X, layout=Packed.from_lengths([5, 5])),
    "memory must be padded (B, T, D) with D = 8, got (2, 3, 4)": lambda: MHA(X, torch.zeros(2, 3, 4)),
    "x and memory must both be padded or both be packed, got packed queries and padded keys": lambda: MHA(
        torch.zeros(10, 8), MHA.keys_values(X), layout=Packed.from_lengths([5, 5])
    ),
    "x and memory must both be padded or both be packed, got padded queries and packed keys": lambda: MHA(
        X, torch.zeros(10, 8), memory_layout=Packed.from_lengths([5, 5])
    ),
    "there must be as many sequences of queries as of keys, got 2 and 1": lambda: MHA(
        torch.zeros(10, 8),
        torch.zeros(9, 8),
        layout=Packed.from_lengths([5, 5]),
        memory_layout=Packed.from_lengths([9]),
    ),
    "x must have the shape of its layout, (9,), got (10,)": lambda: MHA(
        torch.zeros(10, 8), layout=Packed.from_lengths([5, 4])
    ),
    "x must have the shape of its layout, (2, 4), got (2, 5)": lambda: MHA(X, layout=Padded.like(X[:, :4])),
    "memory_layout needs a memory, got Padded and no memory": lambda: MHA(X, memory_layout=Padded.like(X)),
    "q must be (N, heads, width) with N = 9, got (10, 2, 4)": lambda: packed_attention(
        *(torch.zeros(10, 2, 4),) * 3, queries=Packed.from_lengths([5, 4]), keys=Packed.from_lengths([5, 5])
    ),
    "a causal or windowed layer counts from the end of both sequences": lambda: MultiHeadAttention(8, 2, window=(1, 1))(
        X, X, memory_layout=Padded.from_lengths([5, 3])
    ),
    "got cross-attention with padding": lambda: MultiHeadAttention(8, 2, causal=True)(
        X, X, layout=Padded.from_lengths([5, 3]), memory_layout=Padded.like(X)
    ),
    "memory must have the shape of its layout, (2, 1), got (2, 5)": lambda: MHA(
        X, MHA.keys_values(X), memory_layout=Padded.from_lengths([1, 1])
    ),
    "v must be (N, heads, width) with N = 10, got (1, 2, 4)": lambda: packed_attention(
        *(torch.zeros(10, 2, 4),) * 2,
        torch.zeros(1, 2, 4),
        queries=Packed.from_lengths([10]),
        keys=Packed.from_lengths([10]),
    ),
    "rotary positions for width 8 cannot turn heads of width 2": lambda: Rotary(8)(torch.zeros(1, 3, 2, 2)),
    "rotary positions on 2 axes need positions of shape (..., T, 2), got (2,)": lambda: MultiHeadAttention(
        8, 2, rotary=Rotary(4, axes=2)
    )(X[:, :2]),
    "there must be as many keys as values": lambda: KeyValueCache().append(
        torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 1, 4)
    ),
    "selecting rows needs a padded memory": lambda: MHA.keys_values(torch.zeros(5, 8), Packed.from_lengths([5])).select(
        torch.tensor([0])
    ),
    "a mask must be boolean, True = may attend, got torch.int64": lambda: MHA(
        X, layout=Padded.from_lengths([5, 3]), mask=torch.ones(5, 5, dtype=torch.int64)
    ),
    "rotary positions on 2 axes need positions of shape (..., T, 2), got (5,)": lambda: MultiHeadAttention(
        8, 2, rotary=Rotary(4, axes=2)
    )(X),
    "the layout of x must be Padded or Packed, got Tensor": lambda: MHA(X, layout=torch.ones(2, 5, dtype=torch.bool)),
    "the layout of x must be Padded or Packed, got list": lambda: MHA(X, layout=[5, 3]),
    "keep must be boolean of shape (2, 5), True = a token, got torch.int64 (2, 5)": lambda: Padded.like(
        X, keep=torch.ones(2, 5, dtype=torch.int64)
    ),
    "keep must be boolean of shape (2, 5), True = a token, got torch.bool (5,)": lambda: Padded.like(
        X, keep=torch.ones(5, dtype=torch.bool)
    ),
    "got padding in layout, no memory_layout": lambda: MHA(X, X, layout=Padded.from_lengths([5, 3])),
    "weights must be a list to collect them in, got bool": lambda: EncoderBlock(
        MHA, FeedForward(8, 8), lambda: PreNorm(torch.nn.Identity)
    )(X, weights=True),
    "a cache does not remember padding": lambda: MHA(X, layout=Padded.from_lengths([5, 3]), cache=KeyValueCache()),
    "a packed batch takes no dense mask": lambda: MHA(
        torch.zeros(10, 8), layout=Packed.from_lengths([5, 5]), mask=torch.ones(5, 5, dtype=torch.bool)
    ),
    "a cache is for self-attention, got one together with a memory": lambda: MHA(X, X, cache=KeyValueCache()),
    "a cache needs a padded batch, got a packed layout": lambda: MHA(
        torch.zeros(10, 8), layout=Packed.from_lengths([5, 5]), cache=KeyValueCache()
    ),
    "learned positions end at 4, got a sequence of 5 tokens": lambda: LearnedPositions(4, 8)(X, Padded.like(X)),
}


@pytest.mark.parametrize("call", CALLED.values(), ids=CALLED)
def test_refused_when_called(call, request):
    with pytest.raises(TensorError) as error:
        call()
    assert request.node.callspec.id in error.value.message


def test_an_error_shows_its_hint_after_a_blank_line():
    with pytest.raises(OptionError) as error:
        MultiHeadAttention(8, 2, score="scaled_dot")
    assert str(error.value).endswith("\n\nhint: did you mean 'scaled-dot'?")
