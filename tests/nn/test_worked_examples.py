"""The examples one can follow with a pencil. Each is a page of numbers, and must come out as written."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import tensor

from manyheads.models import TransformerConfig
from manyheads.models.cost import attention_cost
from manyheads.nn import MultiHeadAttention, SinusoidalPositions, attention, dot, scaled_dot
from manyheads.nn.layout import Padded


def one_head(x):
    return tensor(x, dtype=torch.float32)[None, None]


def close(actual, expected, tolerance):
    torch.testing.assert_close(actual.squeeze(), tensor(expected), atol=tolerance, rtol=0)


def test_w1_attention_by_hand():
    a, w_q = one_head([[1, 1], [1, 0]]), tensor([[1.0, 1.0], [0.0, 1.0]])
    q, k = a @ w_q, one_head([[1, 0], [0, 1]])
    close(q, [[1.0, 2.0], [1.0, 1.0]], 0)
    close(scaled_dot(q, k), [[0.71, 1.41], [0.71, 0.71]], 0.005)
    output, weights = attention(q, k, k, return_weights=True)
    close(weights, [[0.33, 0.67], [0.50, 0.50]], 0.005)
    close(output, [[0.33, 0.67], [0.50, 0.50]], 0.005)


def test_w1_the_column_form_is_the_same():
    q, k, v = (torch.randn(1, 1, 5, 4) for _ in range(3))
    rows = attention(q, k, v)[0, 0]
    columns = v[0, 0].T @ torch.softmax(k[0, 0] @ q[0, 0].T / math.sqrt(4), dim=0)
    torch.testing.assert_close(rows, columns.T)


def test_w2_the_scale_keeps_softmax_soft():
    q = one_head([[1, 0, 1, 0], [0, 1, 0, 1]])
    _, unscaled = attention(q, q, q, score=dot, return_weights=True)
    _, scaled = attention(q, q, q, return_weights=True)
    close(unscaled, [[0.88, 0.12], [0.12, 0.88]], 0.005)
    close(scaled, [[0.73, 0.27], [0.27, 0.73]], 0.005)


def gradient_through_softmax(score, width):
    """Mean size of ∂weights/∂scores for random queries and keys."""
    q, k = torch.randn(1, 1, 64, width), torch.randn(1, 1, 16, width)
    weights = score(q, k).softmax(-1)[0, 0]
    jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
    return jacobian.abs().mean().item()


def test_w2_without_the_scale_the_gradient_vanishes_as_the_width_grows():
    unscaled = [gradient_through_softmax(dot, width) for width in (4, 64, 1024)]
    scaled = [gradient_through_softmax(scaled_dot, width) for width in (4, 64, 1024)]
    assert unscaled[0] > 3 * unscaled[1] > 9 * unscaled[2]
    assert max(scaled) < 1.5 * min(scaled)


def test_w3a_a_selection_matrix_cuts_the_first_half():
    x = torch.randn(3, 4)
    first_half = tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    torch.testing.assert_close(x @ first_half, x[:, :2])


def test_w3a_one_split_projection_equals_a_projection_for_each_head():
    mha, x = MultiHeadAttention(8, 2), torch.randn(1, 5, 8)
    w_q, w_k, w_v = mha.input.weight.split(8)
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        q, k, v = (F.linear(x, w[part])[:, None] for w in (w_q, w_k, w_v))
        heads.append(attention(q, k, v)[:, 0])
    torch.testing.assert_close(mha(x), mha.output(torch.cat(heads, dim=-1)))


def test_w3a_two_linear_maps_fold_into_one():
    x, w_q, w_h = torch.randn(3, 4), torch.randn(4, 4), torch.randn(4, 2)
    torch.testing.assert_close(x @ w_q @ w_h, x @ (w_q @ w_h))


def test_w3b_the_output_matrix_fuses_the_heads():
    mha = MultiHeadAttention(4, 2)
    w_o = tensor([[1.0, 1, 0, 0], [0, 1, 0, 1], [1, 0, 1, 1], [0, 1, 0, 0]])
    mha.output.weight.data = w_o.T
    close(mha.output(tensor([[1.0, 1, 0, 1], [0, 1, 1, 0]])), [[1.0, 3, 0, 1], [1, 1, 1, 2]], 0)


@pytest.mark.parametrize(
    ("heads", "output", "multiply_adds"),
    [(1, False, 60_129_542_144), (8, True, 68_719_476_736), (8, False, 60_129_542_144)],
)
def test_w4_cost(heads, output, multiply_adds):
    config = TransformerConfig(width=512, heads=heads)
    cost = attention_cost(config, batch=32, queries=1024, keys=1024, output=output)
    assert cost.multiply_adds.total() == multiply_adds


def test_w5_attention_alone_has_no_order():
    q, k, v = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 3, 4), torch.randn(1, 1, 3, 4)
    swapped = [0, 2, 1]
    b1 = attention(q, k, v)
    torch.testing.assert_close(attention(q, k[:, :, swapped], v[:, :, swapped]), b1, atol=1e-6, rtol=0)


@pytest.mark.parametrize("positions", [False, True])
def test_w5_a_hit_b_is_b_hit_a_until_positions_are_added(positions):
    a, hit, b = torch.randn(3, 8)
    there, back = torch.stack([a, hit, b])[None], torch.stack([b, hit, a])[None]
    if positions:
        add = SinusoidalPositions(8)
        there, back = add(there, Padded.like(there)), add(back, Padded.like(back))
    mha = MultiHeadAttention(8, 2)
    same_bag = torch.allclose(mha(there).sum(1), mha(back).sum(1), atol=1e-6)
    assert same_bag != positions


def offset_mask(height, width, row, column):
    """May attend: the one pixel that lies (row, column) away; at the border, nothing."""
    pixels = torch.cartesian_prod(torch.arange(height), torch.arange(width))
    return (pixels[None, :, :] == pixels[:, None, :] + tensor([row, column])).all(-1)


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_w6_a_convolution_is_attention_with_one_head_for_each_offset(kernel):
    height, width, channels = 6, 7, 3
    image = torch.randn(1, channels, height, width)
    weight = torch.randn(channels, channels, kernel, kernel) / (channels * kernel**2)
    reach = kernel // 2
    offsets = [(r, c) for r in range(-reach, reach + 1) for c in range(-reach, reach + 1)]
    mask = torch.stack([offset_mask(height, width, r, c) for r, c in offsets])[None]  # (1, K², pixels, pixels)

    heads = len(offsets)
    mha = MultiHeadAttention(channels, heads, key_width=1, value_width=channels)
    values = torch.eye(channels).repeat(heads, 1)  # every head passes its pixel on unchanged
    mha.input.weight.data[-heads * channels :] = values
    mha.output.weight.data = weight.permute(0, 2, 3, 1).reshape(channels, heads * channels)

    pixels = image.flatten(2).transpose(1, 2)
    ours = mha(pixels, mask=mask).transpose(1, 2).reshape(1, channels, height, width)
    torch.testing.assert_close(ours, F.conv2d(image, weight, padding=reach), atol=1e-6, rtol=1e-6)


def test_the_causal_example_has_weights_of_exactly_zero():
    """At 我, the weights of 喜欢 and 苹果 are exactly 0."""
    mha, words = MultiHeadAttention(8, 2, causal=True), torch.randn(1, 3, 8)  # 我 喜欢 苹果
    _, weights = mha(words, return_weights=True)
    assert (weights[0, :, 0] == tensor([1.0, 0.0, 0.0])).all()
    assert (weights[0, :, 1, 2] == 0).all()
    assert (weights[0].tril() > 0).sum() == 2 * 6
