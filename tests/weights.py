"""Other libraries' weights, put into our modules, and how alike the two then have to be.

Loading is strict: a weight too few, too many or of another shape is an error.
"""

import torch
from torch import nn


@torch.no_grad()
def randomise(module, std=0.2):
    """Every trainable parameter at random, norms around 1. Biases that start at 0 would hide mistakes."""
    generator = torch.Generator().manual_seed(1)
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            if parameter.requires_grad:
                around = 1.0 if isinstance(part, nn.LayerNorm) and name == "weight" else 0.0
                parameter.normal_(around, std, generator=generator)
    return module


def load(ours, theirs):
    ours.load_state_dict(theirs.state_dict())


def load_stacked(ours, *theirs):
    """One linear layer of ours from several of theirs, one above the other."""
    states = [linear.state_dict() for linear in theirs]
    ours.load_state_dict({name: torch.cat([state[name] for state in states]) for name in states[0]})


def load_attention(ours, query, key, value, output):
    load_stacked(ours.input, query, key, value)
    load(ours.output, output)


def load_feedforward(ours, up, down):
    load(ours.up, up)
    load(ours.down, down)


def load_norms(block, attention, feedforward, cross=None):
    """The norms around the sublayers of a block."""
    load(block.around_attention.norm, attention)
    load(block.around_feedforward.norm, feedforward)
    if cross is not None:
        load(block.around_cross.norm, cross)


def assert_same(ours, theirs, tolerance=1e-5):
    """Equal to within `tolerance`, beside which the reference is large."""
    assert ours.shape == theirs.shape
    assert torch.isfinite(theirs).all()
    assert theirs.abs().max() > 0.1
    difference = (ours - theirs).abs().max().item()
    assert difference <= tolerance, f"differs by {difference:.2g}"
