"""With PyTorch's weights, our modules are PyTorch's: the same outputs, weights and gradients.

PyTorch computes in eval mode without gradients on a path of its own (the fast path), so each test runs both with
and without gradients. Its masks say what may *not* be seen, the opposite of ours.
"""

from functools import partial
from unittest import mock

import pytest
import torch
from torch import nn

from manyheads.nn import (
    Decoder,
    DecoderBlock,
    Encoder,
    EncoderBlock,
    FeedForward,
    MultiHeadAttention,
    Padded,
    PostNorm,
    PreNorm,
)
from weights import assert_same, load, load_feedforward, load_norms, randomise

BATCH, WIDTH, HEADS, HIDDEN, LAYERS = 4, 32, 4, 64, 3
SOURCE, TARGET = 9, 6

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")

in_both_modes = pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
in_both_norms = pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
with_both_activations = pytest.mark.parametrize("activation", ["relu", "gelu"])


@in_both_modes
@pytest.mark.parametrize("causal", [False, True], ids=["open", "causal"])
@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("crossing", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("bias", [False, True], ids=["no-bias", "bias"])
def test_multihead_attention(bias, crossing, padded, causal, training):
    theirs = torch_attention(training, bias)
    as_mask = crossing and padded and causal  # a causal layer refuses a memory with padding; a mask says the same
    ours = attention_like(theirs, causal=causal and not as_mask)
    x = sequences(TARGET)
    memory = sequences(SOURCE) if crossing else None
    keys = x if memory is None else memory
    keep = some_padding(keys) if padded else None
    mask = forbid_ahead(TARGET, keys.shape[1]) if causal else None

    layouts = {"memory_layout" if crossing else "layout": Padded.like(keys, keep)}
    attend = partial(ours, x, memory, mask=~mask if as_mask else None, **layouts)
    reference = partial(theirs, x, keys, keys, key_padding_mask=forbidden(keep), attn_mask=mask)
    compare_attention(attend, reference, [x, memory] if crossing else [x])


@in_both_modes
def test_multihead_attention_with_a_mask_for_each_head(training):
    theirs = torch_attention(training)
    ours = attention_like(theirs)
    x, memory = sequences(TARGET), sequences(SOURCE)
    mask = torch.rand(BATCH, HEADS, TARGET, SOURCE) < 0.5
    mask[..., 0] = True

    attend = partial(ours, x, memory, mask=mask)
    reference = partial(theirs, x, memory, memory, attn_mask=forbidden(mask.flatten(0, 1)))
    compare_attention(attend, reference, [x, memory])


@in_both_modes
@in_both_norms
@with_both_activations
@pytest.mark.parametrize("masks", ["none", "padding", "causal"])
def test_transformer_encoder(norm_first, activation, masks, training):
    theirs = torch_encoder(norm_first, activation, training)
    ours = encoder_like(theirs, norm_first, activation, causal=masks == "causal")
    x = sequences(SOURCE)
    keep = some_padding(x) if masks == "padding" else None
    mask = forbid_ahead(SOURCE, SOURCE) if masks == "causal" else None

    encode = partial(ours, x, Padded.like(x, keep))
    reference = partial(theirs, x, mask, forbidden(keep))
    compare_stacks(encode, reference, [x], tokens=slice(None) if keep is None else keep)


@in_both_modes
@in_both_norms
@with_both_activations
@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
def test_transformer_decoder(norm_first, activation, padded, training):
    theirs = torch_decoder(norm_first, activation, training)
    ours = decoder_like(theirs, norm_first, activation)
    x, memory = sequences(TARGET), sequences(SOURCE)
    keep = some_padding(memory) if padded else None

    decode = partial(ours, x, Padded.like(x), [memory] * LAYERS, Padded.like(memory, keep))
    reference = partial(
        theirs, x, memory, tgt_mask=forbid_ahead(TARGET, TARGET), memory_key_padding_mask=forbidden(keep)
    )
    compare_stacks(decode, reference, [x, memory])


def test_attention_in_eval_mode_meets_the_fast_path():
    theirs, x = torch_attention(training=False), sequences(SOURCE)
    with torch.no_grad(), spy("_native_multi_head_attention") as fast_path:
        theirs(x, x, x, key_padding_mask=forbidden(some_padding(x)))
    assert fast_path.call_count == 1


@in_both_norms
@with_both_activations
def test_an_encoder_in_eval_mode_meets_the_fast_path(norm_first, activation):
    theirs, x = torch_encoder(norm_first, activation, training=False), sequences(SOURCE)
    with torch.no_grad(), spy("_transformer_encoder_layer_fwd") as fast_path:
        theirs(x, None, forbidden(some_padding(x)))
    assert fast_path.call_count == LAYERS


def compare_attention(ours, theirs, inputs):
    """Output and weights, without and with gradients; gradients of the output and of the weights."""
    for enabled in (False, True):
        with torch.set_grad_enabled(enabled):
            fused = ours()
            explicit, weights = ours(return_weights=True)
            expected, expected_weights = theirs(average_attn_weights=False)
            unweighted, nothing = theirs(need_weights=False)
        assert nothing is None
        assert_same(fused, expected)
        assert_same(fused, unweighted)
        assert_same(explicit, expected)
        assert_same(weights, expected_weights)
    assert_same_gradients(fused, expected, inputs)
    assert_same_gradients(explicit, expected, inputs)
    assert_same_gradients(weights, expected_weights, inputs)


def compare_stacks(ours, theirs, inputs, tokens=slice(None)):
    """Outputs at `tokens`, without and with gradients, and the gradients. The fast path gives zeros at padding."""
    for enabled in (False, True):
        with torch.set_grad_enabled(enabled):
            out, expected = ours()[tokens], theirs()[tokens]
        assert_same(out, expected)
    assert_same_gradients(out, expected, inputs)


def assert_same_gradients(ours, theirs, inputs):
    direction = torch.randn_like(theirs)
    for got, wanted in zip(gradients(ours, direction, inputs), gradients(theirs, direction, inputs), strict=True):
        assert_same(got, wanted, tolerance=1e-4)


def gradients(out, direction, inputs):
    return torch.autograd.grad(out, inputs, direction, retain_graph=True)


def sequences(length):
    return torch.randn(BATCH, length, WIDTH, requires_grad=True)


def some_padding(x):
    """What to keep of `x`: all of the longest sequence, one token of the shortest."""
    length = x.shape[1]
    lengths = torch.tensor([length - 2, length, 1, length // 2])
    return torch.arange(length) < lengths[:, None]


def forbidden(mask):
    """Our mask as theirs."""
    return None if mask is None else ~mask


def forbid_ahead(queries, keys):
    """Their causal mask; with more keys than queries, the queries are the last of the sequence."""
    return torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1)


def dropout_in(training):
    """In eval mode it must change nothing; in training it would, and is left out."""
    return 0.0 if training else 0.3


def torch_attention(training, bias=True):
    attention = nn.MultiheadAttention(WIDTH, HEADS, dropout_in(training), bias=bias, batch_first=True)
    return randomise(attention).train(training)


def torch_encoder(norm_first, activation, training):
    layer = torch_layer(nn.TransformerEncoderLayer, norm_first, activation, training)
    norm = nn.LayerNorm(WIDTH) if norm_first else None
    encoder = nn.TransformerEncoder(layer, LAYERS, norm, enable_nested_tensor=not norm_first)
    return randomise(encoder).train(training)


def torch_decoder(norm_first, activation, training):
    layer = torch_layer(nn.TransformerDecoderLayer, norm_first, activation, training)
    norm = nn.LayerNorm(WIDTH) if norm_first else None
    return randomise(nn.TransformerDecoder(layer, LAYERS, norm)).train(training)


def torch_layer(kind, norm_first, activation, training):
    options = {"activation": activation, "norm_first": norm_first, "batch_first": True}
    return kind(WIDTH, HEADS, HIDDEN, dropout_in(training), **options)


def attention_like(theirs, *, causal=False):
    bias = theirs.in_proj_bias is not None
    ours = MultiHeadAttention(WIDTH, HEADS, bias=bias, causal=causal, dropout=theirs.dropout)
    load_torch_attention(ours, theirs)
    return ours.train(theirs.training)


def encoder_like(theirs, norm_first, activation, *, causal=False):
    residual = residual_like(theirs, norm_first)
    blocks = [
        EncoderBlock(attention_like(layer.self_attn, causal=causal), feedforward_like(layer, activation), residual)
        for layer in theirs.layers
    ]
    for block, layer in zip(blocks, theirs.layers, strict=True):
        load_norms(block, layer.norm1, layer.norm2)
    return Encoder(blocks, last_norm_like(theirs)).train(theirs.training)


def decoder_like(theirs, norm_first, activation):
    residual = residual_like(theirs, norm_first)
    blocks = [
        DecoderBlock(
            attention_like(layer.self_attn, causal=True),
            attention_like(layer.multihead_attn),
            feedforward_like(layer, activation),
            residual,
        )
        for layer in theirs.layers
    ]
    for block, layer in zip(blocks, theirs.layers, strict=True):
        load_norms(block, layer.norm1, layer.norm3, cross=layer.norm2)
    return Decoder(blocks, last_norm_like(theirs)).train(theirs.training)


def residual_like(theirs, norm_first):
    layer = theirs.layers[0]
    norm = partial(nn.LayerNorm, WIDTH, eps=layer.norm1.eps)
    return partial(PreNorm if norm_first else PostNorm, norm, dropout=layer.dropout1.p)


def feedforward_like(layer, activation):
    ours = FeedForward(WIDTH, HIDDEN, activation=activation, dropout=layer.dropout.p)
    load_feedforward(ours, layer.linear1, layer.linear2)
    return ours


def last_norm_like(theirs):
    if theirs.norm is None:
        return nn.Identity()
    norm = nn.LayerNorm(WIDTH, eps=theirs.norm.eps)
    load(norm, theirs.norm)
    return norm


def load_torch_attention(ours, theirs):
    """Theirs are stacked as ours are: queries, keys, values."""
    stacked = {"weight": theirs.in_proj_weight, "bias": theirs.in_proj_bias}
    ours.input.load_state_dict({name: tensor for name, tensor in stacked.items() if tensor is not None})
    load(ours.output, theirs.out_proj)


def spy(function):
    return mock.patch.object(torch, function, wraps=getattr(torch, function))
