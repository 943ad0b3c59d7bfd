"""The arithmetic of cost against the model as built and against PyTorch's own counter."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from test_transformer import OPTIONS, SMALL, WORDS
from torch.utils.flop_counter import FlopCounterMode

from manyheads import OptionError, Transformer, TransformerConfig, load_recipe, recipe_names, transformer_cost
from manyheads.models.cost import PARTS

PART_OF = {
    "words": "embedding", "target_words": "embedding", "positions": "embedding", "input": "projections", "query_norm": "projections",
    "key_norm": "projections", "score": "scores", "output": "output", "up": "feed-forward", "down": "feed-forward",
    "norm": "norms", "head": "head",
}  # fmt: skip


def count_parameters(model):
    """By part, each tensor once: tied tensors belong to the first module that has them."""
    counts = Counter()
    for name, parameter in model.named_parameters():
        part = next(PART_OF[word] for word in reversed(name.split(".")) if word in PART_OF)
        counts[part] += parameter.numel()
    return counts


def build_without_memory(recipe):
    with torch.device("meta"):
        return Transformer(recipe.model, recipe.data.vocabulary)


@pytest.mark.parametrize("name", [name for name in recipe_names() if load_recipe(name).task == "translate"])
def test_parameters_of_every_recipe_are_those_of_the_model(name):
    recipe = load_recipe(name)
    cost = transformer_cost(recipe.transformer, recipe.data.vocabulary)
    assert +cost.parameters == count_parameters(build_without_memory(recipe))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_parameters_of_every_option_are_those_of_the_model(options):
    config = replace(SMALL, **options)
    assert +transformer_cost(config, WORDS).parameters == count_parameters(Transformer(config, WORDS))


def count_multiply_adds(model, source, target):
    """What PyTorch counts on the explicit path, by the kind of product. (It counts nothing for a fused CPU kernel.)"""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        memory = model.encode(source, weights=[])
        model.decode(target, memory, weights=[], cross_weights=[])
    flops = counter.get_flop_counts()["Global"]
    batched = sum(n for op, n in flops.items() if "bmm" in str(op))
    return {"batched": batched // 2, "total": sum(flops.values()) // 2}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_multiply_adds_are_what_pytorch_counts(options):
    config = replace(SMALL, **options)
    model = Transformer(config, WORDS).eval()
    source, target = torch.randint(1, WORDS, (3, 7)), torch.randint(1, WORDS, (3, 5))
    cost = transformer_cost(config, WORDS, batch=3, source_length=7, target_length=5).multiply_adds
    counted = count_multiply_adds(model, source, target)
    assert counted["total"] == cost.total()
    assert counted["batched"] == cost["scores"] + cost["weighted sum"]


def test_multiply_adds_of_each_part():
    """Each part grows with what it should grow with."""
    config = TransformerConfig(width=8, heads=2, layers=1, feedforward=32)
    one = transformer_cost(config, 10, batch=1, source_length=4, target_length=4).multiply_adds
    many = transformer_cost(config, 10, batch=5, source_length=8, target_length=8).multiply_adds
    ratios = {part: many[part] / one[part] for part in PARTS if one[part]}
    assert ratios == {
        "projections": 10, "scores": 20, "weighted sum": 20, "output": 10, "feed-forward": 10, "head": 10,
    }  # fmt: skip


TABLE_3 = [name for name in recipe_names() if name.startswith("paper/table3/")] + ["paper/base"]


@pytest.mark.parametrize("name", TABLE_3)
def test_table_3_of_the_paper_to_its_rounding(name):
    recipe = load_recipe(name)
    millions = transformer_cost(recipe.model, recipe.data.vocabulary).parameters.total() / 1e6
    assert recipe.data.vocabulary == 41_100
    assert round(millions) == recipe.published.parameters


def test_the_big_model_within_three_per_cent():
    recipe = load_recipe("paper/big")
    millions = transformer_cost(recipe.model, recipe.data.vocabulary).parameters.total() / 1e6
    assert millions == pytest.approx(recipe.published.parameters, rel=0.03)


def test_every_row_of_table_3_is_there():
    assert len(TABLE_3) == 19
    published = {(load_recipe(n).published.perplexity, load_recipe(n).published.bleu) for n in TABLE_3}
    assert published == {
        (4.92, 25.8), (5.29, 24.9), (5.00, 25.5), (4.91, 25.8), (5.01, 25.4), (5.16, 25.1), (6.11, 23.7), (5.19, 25.3),
        (4.88, 25.5), (5.75, 24.5), (4.66, 26.0), (5.12, 25.4), (4.75, 26.2), (5.77, 24.6), (4.95, 25.5), (4.67, 25.3),
        (5.47, 25.7), (4.92, 25.7),
    }  # fmt: skip


def test_a_sentence_beyond_the_table_of_positions_costs_nothing_because_it_cannot_be():
    config = replace(SMALL, positions="learned", max_length=9)
    with pytest.raises(OptionError, match="learned positions end at max_length 9, got 10 tokens"):
        transformer_cost(config, WORDS, source_length=10)
