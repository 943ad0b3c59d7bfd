"""The cost of a Transformer: parameters and multiply-adds of one forward pass, part by part.

Plain arithmetic on the configuration: nothing is built and torch is not imported. Tests check that the parameters equal
those of the model as built, and the multiply-adds equal PyTorch's own flop counter on the explicit path.
Only matrix products count as multiply-adds; a masked score costs as much as any other, as it does on that path.
A multiply-add is two floating-point operations, and a training step costs three forward passes.

    embedding     words, learned positions, kinds of text; reading a table multiplies nothing
    projections   of queries, keys and values
    scores        every query with every key
    weighted sum  of the values
    output        the projection of the joined heads
    feed-forward
    norms         of the embeddings, of the blocks and after the stacks; no products
    head          from the model's width to the vocabulary; no parameters of its own if tied

B batch · T queries · S keys · D model width · H heads · G key/value heads · K key width · V value width
"""

from collections import Counter
from dataclasses import dataclass

from manyheads.errors import OptionError
from manyheads.models.config import (
    SPREAD,
    EncoderConfig,
    LanguageModelConfig,
    ParallelConfig,
    StackConfig,
    TransformerConfig,
)

__all__ = [
    "PARTS",
    "Cost",
    "attention_cost",
    "encoder_cost",
    "language_model_cost",
    "parallel_cost",
    "transformer_cost",
]

PARTS = ("embedding", "projections", "scores", "weighted sum", "output", "feed-forward", "norms", "head")


@dataclass(frozen=True)
class Cost:
    """Parameters and multiply-adds, each by part."""

    parameters: Counter[str]
    multiply_adds: Counter[str]

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.parameters + other.parameters, self.multiply_adds + other.multiply_adds)

    def __mul__(self, times: int) -> "Cost":
        return Cost(
            *(Counter({part: times * n for part, n in c.items()}) for c in (self.parameters, self.multiply_adds))
        )


NOTHING = Cost(Counter(), Counter())


def attention_cost(config: StackConfig, *, batch: int, queries: int, keys: int, output: bool = True) -> Cost:
    """One multi-head attention of `queries` queries to `keys` keys."""
    width, heads, kv_heads = config.width, config.heads, config.kv_heads or config.heads
    key_width = config.head_width
    value_width = config.value_width or key_width
    query_size, memory_size = heads * key_width, kv_heads * (key_width + value_width)
    output_size = heads * value_width * width if output else 0
    return Cost(
        Counter(
            {
                "projections": (width + config.bias) * (query_size + memory_size) + 2 * config.qk_norm * key_width,
                "scores": heads * key_width if config.score == "additive" else 0,
                "output": output_size + (config.bias and output) * width,
            }
        ),
        Counter(
            {
                "projections": batch * width * (queries * query_size + keys * memory_size),
                "scores": batch * heads * queries * keys * key_width,
                "weighted sum": batch * heads * queries * keys * value_width,
                "output": batch * queries * output_size,
            }
        ),
    )


def feedforward_cost(config: StackConfig, *, batch: int, length: int) -> Cost:
    inputs = 2 if config.activation == "swiglu" else 1
    weights = (inputs + 1) * config.width * config.feedforward
    biases = config.feedforward_bias * (inputs * config.feedforward + config.width)
    return Cost(Counter({"feed-forward": weights + biases}), Counter({"feed-forward": batch * length * weights}))


def norm_cost(config: StackConfig) -> Cost:
    return Cost(Counter({"norms": config.width * (2 if config.normaliser == "layer" else 1)}), Counter())


def table_cost(config: StackConfig, rows: int) -> Cost:
    return Cost(Counter({"embedding": config.width * rows}), Counter())


def position_cost(config: StackConfig) -> Cost:
    return table_cost(config, config.max_length) if config.positions == "learned" else NOTHING


def head_cost(config: StackConfig, words: int, *, tied: bool, batch: int, length: int) -> Cost:
    weights = config.width * words
    return Cost(Counter({"head": 0 if tied else weights}), Counter({"head": batch * length * weights}))


def stack_cost(config: StackConfig, layers: int, *, batch: int, length: int, memory: int | None = None) -> Cost:
    """Blocks, all alike, and the norm after the last. If there is a memory, of `memory` tokens, each block reads it."""
    norm = norm_cost(config)
    block = (
        attention_cost(config, batch=batch, queries=length, keys=length)
        + norm
        + (NOTHING if memory is None else attention_cost(config, batch=batch, queries=length, keys=memory) + norm)
        + feedforward_cost(config, batch=batch, length=length)
        + norm
    )
    return block * layers + (norm if config.norm == "pre" else NOTHING)


def transformer_cost(
    config: TransformerConfig,
    vocabulary: int | tuple[int, int],
    *,
    batch: int = 1,
    source_length: int = 1,
    target_length: int = 1,
) -> Cost:
    """One forward pass of `batch` sentence pairs of the given lengths."""
    check_length(config, max(source_length, target_length))
    source_words, words = (vocabulary, vocabulary) if isinstance(vocabulary, int) else vocabulary
    return (
        table_cost(config, source_words if config.tie == "all" else source_words + words)
        + position_cost(config) * 2
        + stack_cost(config, config.layers, batch=batch, length=source_length)
        + stack_cost(config, config.depth, batch=batch, length=target_length, memory=source_length)
        + head_cost(config, words, tied=config.tie != "none", batch=batch, length=target_length)
    )


def parallel_cost(
    config: ParallelConfig,
    vocabulary: int | tuple[int, int],
    *,
    batch: int = 1,
    source_length: int = 1,
    target_length: int = 1,
) -> Cost:
    """One iteration: one pass over all places of `batch` sentence pairs.

    The layers that predict lengths or links count as "head"; the products of every vertex with every other as "scores".
    """
    places = config.places_for(source_length, target_length)
    plain = transformer_cost(config, vocabulary, batch=batch, source_length=source_length, target_length=places)
    mask = table_cost(
        config, 1 if config.tie != "none" else 2
    )  # the mask's row in the table that is read; an untied head has one, too, but the mask is never written
    return plain + mask + OF_PLACES[config.writes](config, batch, places)


def length_cost(config: ParallelConfig, batch: int, _places: int) -> Cost:
    lengths = 2 * SPREAD + 1
    return Cost(Counter({"head": (config.width + 1) * lengths}), Counter({"head": batch * config.width * lengths}))


def link_cost(config: ParallelConfig, batch: int, places: int) -> Cost:
    """Queries, keys and gates of every vertex, and the scores of every vertex with every other."""
    width, outputs = config.width, 2 * config.width + config.heads
    return Cost(
        Counter({"head": (width + 1) * outputs}),
        Counter({"head": batch * places * width * outputs, "scores": batch * places * places * width}),
    )


OF_PLACES = {"mask": length_cost, "end": lambda *_: NOTHING, "graph": link_cost}


def encoder_cost(config: EncoderConfig, vocabulary: int, *, batch: int = 1, length: int = 1) -> Cost:
    """One forward pass of `batch` texts, up to one vector per token: what is computed from these is not counted."""
    check_length(config, length)
    return (
        table_cost(config, vocabulary + config.segments)
        + position_cost(config)
        + (norm_cost(config) if config.embed_norm else NOTHING)
        + stack_cost(config, config.layers, batch=batch, length=length)
    )


def language_model_cost(config: LanguageModelConfig, vocabulary: int, *, batch: int = 1, length: int = 1) -> Cost:
    """One forward pass of `batch` texts, with a prediction at every token, as in training."""
    check_length(config, length)
    return (
        table_cost(config, vocabulary)
        + position_cost(config)
        + stack_cost(config, config.layers, batch=batch, length=length)
        + head_cost(config, vocabulary, tied=config.tie, batch=batch, length=length)
    )


def check_length(config: StackConfig, length: int) -> None:
    if config.positions == "learned" and length > config.max_length:
        raise OptionError(
            f"learned positions end at max_length {config.max_length}, got {length} tokens",
            hint="a larger max_length makes the table longer",
        )
