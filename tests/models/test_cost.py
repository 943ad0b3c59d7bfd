"""The arithmetic of cost against the model as built and against PyTorch's own counter."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from test_transformer import OPTIONS, SMALL, WORDS
from torch.utils.flop_counter import FlopCounterMode

from manyheads import OptionError, Transformer, TransformerConfig, load_recipe, recipe_names, transformer_cost
from manyheads.models.config import EncoderConfig, LanguageModelConfig, ParallelConfig
from manyheads.models.cost import PARTS, encoder_cost, language_model_cost, parallel_cost
from manyheads.models.encoder import TextEncoder
from manyheads.models.language_model import LanguageModel
from manyheads.models.parallel import ParallelTransformer

PART_OF = {
    "words": "embedding", "target_words": "embedding", "positions": "embedding", "segments": "embedding", "input": "projections", "query_norm": "projections",
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

    def translate():
        memory = model.encode(source, weights=[])
        model.decode(target, memory, weights=[], cross_weights=[])

    return count_by_kind(translate)


def count_by_kind(work):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        work()
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


# ── all tokens at once ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tie", ["all", "target", "none"])
@pytest.mark.parametrize("writes", ["mask", "end", "graph"])
def test_what_writes_in_parallel_costs_what_pytorch_counts(writes, tie):
    config = ParallelConfig(width=16, heads=4, layers=2, feedforward=32, writes=writes, tie=tie, places=1.5)
    model = ParallelTransformer(config, WORDS).eval()
    places = config.places_for(7, 5)
    cost = parallel_cost(config, WORDS, batch=3, source_length=7, target_length=5)
    assert cost.parameters.total() == sum(p.numel() for p in model.parameters())
    source, target = torch.randint(1, WORDS, (3, 7)), torch.full((3, places), model.mask)

    def write():
        memory = model.encode(source, weights=[])
        states = model.states(target, memory, weights=[], cross_weights=[])
        model.logits(states)
        if model.length is not None:
            model.length(memory)
        if model.link is not None:
            model.link(states, torch.full((3,), places - 1))

    counted = count_by_kind(write)
    assert counted["total"] == cost.multiply_adds.total()
    assert counted["batched"] == cost.multiply_adds["scores"] + cost.multiply_adds["weighted sum"]


# ── one stack alone ─────────────────────────────────────────────────────────────────────────────────────────────────

SMALL_SHAPE = {"width": 16, "layers": 2, "heads": 4, "feedforward": 32, "dropout": 0.0, "max_length": 12}
OF_STACKS = {n: o for n, o in OPTIONS.items() if not {"decoder_layers", "cross", "tie"} & o.keys()}
ENCODERS = OF_STACKS | {
    "no segments": {"segments": 0},
    "bare embedding": {"embed_norm": False},
    "one layer": {"layers": 1},
}
LANGUAGE_MODELS = OF_STACKS | {"post": {"norm": "post"}, "own head": {"tie": False}, "one layer": {"layers": 1}}
STACKS = [
    pytest.param(kind, model, cost, options, id=f"{model.__name__}, {name}")
    for kind, model, cost, all_options in (
        (EncoderConfig, TextEncoder, encoder_cost, ENCODERS),
        (LanguageModelConfig, LanguageModel, language_model_cost, LANGUAGE_MODELS),
    )
    for name, options in all_options.items()
]
every_stack = pytest.mark.parametrize(("kind", "model", "cost", "options"), STACKS)


@every_stack
def test_parameters_of_one_stack_are_those_of_the_model(kind, model, cost, options):
    config = kind(**{**SMALL_SHAPE, **options})
    assert +cost(config, WORDS).parameters == count_parameters(model(config, WORDS))


@every_stack
def test_multiply_adds_of_one_stack_are_what_pytorch_counts(kind, model, cost, options):
    config = kind(**{**SMALL_SHAPE, **options})
    built, ids = model(config, WORDS).eval(), torch.randint(1, WORDS, (3, 7))
    counted = count_by_kind(lambda: built(ids, weights=[]))
    multiply_adds = cost(config, WORDS, batch=3, length=7).multiply_adds
    assert counted["total"] == multiply_adds.total()
    assert counted["batched"] == multiply_adds["scores"] + multiply_adds["weighted sum"]


@pytest.mark.parametrize("cost", [encoder_cost, language_model_cost])
def test_a_text_beyond_the_table_of_positions_is_refused(cost):
    config = {encoder_cost: EncoderConfig, language_model_cost: LanguageModelConfig}[cost](max_length=9)
    with pytest.raises(OptionError, match="learned positions end at max_length 9, got 10 tokens"):
        cost(config, WORDS, length=10)


def test_bert_and_gpt2_have_the_parameters_that_everybody_knows():
    """BERT base without its pooler: 109,482,240 − 590,592; GPT-2: 124,439,808."""
    assert encoder_cost(EncoderConfig(), 30_522).parameters.total() == 109_482_240 - 590_592
    assert language_model_cost(LanguageModelConfig(), 50_257).parameters.total() == 124_439_808
