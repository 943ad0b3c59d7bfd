"""Rules between the sections of a recipe, by task; each section also has its own. Nothing here imports torch."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from manyheads.decoding.reading import Reading

if TYPE_CHECKING:
    from manyheads.recipe import Recipe

__all__ = ["IDLE", "RULES", "UNUSED"]

OF_WHOLE_TEXTS = ("data.target_tokenizer", "data.backwards", "data.bpe_dropout", "train.simcut", "train.rdrop", "train.teachers", "train.glance", "train.validate_lines")  # fmt: skip
OF_TEXTS = ("data.target_tokenizer", "data.backwards", "data.source", "data.target", "train.simcut", "train.glance", "train.validate_lines")  # fmt: skip
IDLE = {
    "translate": ("train.glance",),
    "parallel": ("data.backwards", "train.simcut"),
    "embed": (*OF_WHOLE_TEXTS, "train.smoothing"),
    "classify": OF_WHOLE_TEXTS,
    "generate": OF_TEXTS,
    "mask": OF_TEXTS,
}
"""By task, keys that it does not use. Setting one is refused, since it would have no effect."""

UNUSED = {
    "translate": (),
    "parallel": ("train.cut", "train.teachers", "train.taught", "train.replay"),
    "embed": ("train.cut", "train.taught", "train.replay", "train.accumulate", "train.shard"),
    "classify": ("train.cut", "train.taught", "train.replay"),
    "generate": ("train.cut", "train.replay"),
    "mask": ("train.cut", "train.replay"),
}
"""By task, further keys that it does not use: they need a key that it refuses, or are refused for a reason of their own."""


def rules_of_embed(recipe: "Recipe") -> Iterator[str]:
    model, longest = recipe.encoder, recipe.embed.max_length
    if model.positions == "learned" and model.max_length < longest:
        yield (
            f"learned positions must reach to the end of the longest text, got model.max_length = {model.max_length} "
            f"and embed.max_length = {longest}"
        )


def rules_of_whole_texts(recipe: "Recipe") -> Iterator[str]:
    """Rules for tasks that learn from whole texts, not from their tokens."""
    yield from rules_of_embed(recipe)
    if recipe.task == "embed" and recipe.train.accumulate > 1:
        yield (
            "a batch must be computed in one part, because each of its pairs is compared with all others, got "
            f"train.accumulate = {recipe.train.accumulate}: a smaller train.tokens takes less memory"
        )


def rules_of_translate(recipe: "Recipe") -> Iterator[str]:
    model, longest = recipe.transformer, recipe.data.max_length
    if model.positions == "learned" and model.max_length <= longest:
        yield positions_end(model.max_length, longest)
    yield from rules_of_pairs(recipe)
    if recipe.decode.alignment:
        yield from Reading.parse(recipe.decode.alignment).misfits(model.depth, model.heads)


def rules_of_parallel(recipe: "Recipe") -> Iterator[str]:
    model, train = recipe.parallel, recipe.train
    places = max(model.places_for(recipe.data.max_length + 1, recipe.data.max_length), recipe.data.max_length + 1)
    if model.positions == "learned" and model.max_length < places:
        yield f"learned positions must reach to the last place, got model.max_length = {model.max_length} and {places} places"
    if train.teachers:
        yield f"a model that writes all at once must be distilled from translations that a teacher has written (manyheads data distill), got train.teachers = {list(train.teachers)}"
    if model.writes == "graph":
        if train.rdrop:
            yield f"R-Drop compares words place by place, which a graph does not have, got train.rdrop = {train.rdrop}"
        if train.smoothing:
            yield f"the loss of a graph is that of paths, which are not smoothed, got train.smoothing = {train.smoothing}"
        if recipe.refine.iterations > 1:
            yield f"a graph is read once, got refine.iterations = {recipe.refine.iterations}"
    elif train.glance:
        yield f"a glance is for graphs, got train.glance = {train.glance} and model.writes = {model.writes!r}"
    if model.writes == "end" and recipe.data.bpe_dropout:
        yield f"bpe_dropout is not for models that count places in advance, got data.bpe_dropout = {recipe.data.bpe_dropout} and writes = 'end'"
    yield from rules_of_pairs(recipe)


def rules_of_pairs(recipe: "Recipe") -> Iterator[str]:
    model = recipe.transformer
    yield from rules_of_rdrop(recipe)
    source, target = recipe.data.tokenizers
    if model.tie == "all" and source != target:
        yield (
            f"model.tie = 'all' needs one tokenizer for both sides, got {source!r} and {target!r}: "
            "tie = 'target' has a vocabulary for each"
        )


def rules_of_generate(recipe: "Recipe") -> Iterator[str]:
    model, longest = recipe.language_model, recipe.data.max_length
    if model.positions == "learned" and model.max_length <= longest:
        yield positions_end(model.max_length, longest)
    yield from rules_of_rdrop(recipe)


def rules_of_mask(recipe: "Recipe") -> Iterator[str]:
    model, longest = recipe.encoder, recipe.data.max_length
    if model.positions == "learned" and model.max_length < longest + 2:  # a text has a begin and an end around it
        yield positions_end(model.max_length, longest)
    yield from rules_of_embed(recipe)
    yield from rules_of_rdrop(recipe)


def positions_end(rows: int, longest: int) -> str:
    return (
        f"learned positions must reach to the end of the longest sentence, got model.max_length = {rows} "
        f"and data.max_length = {longest}"
    )


def rules_of_rdrop(recipe: "Recipe") -> Iterator[str]:
    model = recipe.model
    if recipe.train.rdrop and not (
        model.dropout or model.attention_dropout or model.feedforward_dropout or model.drop_path
    ):
        yield f"R-Drop compares two dropouts, got train.rdrop = {recipe.train.rdrop} and no dropout in [model] (rdrop = 0 turns R-Drop off)"


RULES = {
    "translate": rules_of_translate,
    "parallel": rules_of_parallel,
    "embed": rules_of_whole_texts,
    "classify": rules_of_whole_texts,
    "generate": rules_of_generate,
    "mask": rules_of_mask,
}
