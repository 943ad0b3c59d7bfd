"""What a Transformer costs: parameters and multiply-adds of one forward pass, part by part.

Plain arithmetic on the configuration: nothing is built and torch is not imported. Tests hold the parameters equal
to those of the model as built, and the multiply-adds equal to PyTorch's own flop counter on the explicit path.
Multiply-adds are those of matrix products; a masked score costs as much as any other, as it does on that path.
A multiply-add is two floating-point operations, and a training step costs three forward passes.

    embedding     words and learned positions; reading a table multiplies nothing
    projections   of queries, keys and values
    scores        every query with every key
    weighted sum  of the values
    output        the projection of the joined heads
    feed-forward
    norms         of the blocks and after the stacks; no products
    head          from the model's width to the vocabulary; no parameters of its own if tied

B batch · T queries · S keys · D model width · H heads · G key/value heads · K key width · V value width
"""

from collections import Counter
from dataclasses import dataclass

from manyheads.errors import OptionError
from manyheads.models.config import TransformerConfig

__all__ = ["PARTS", "Cost", "attention_cost", "transformer_cost"]

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


def attention_cost(config: TransformerConfig, *, batch: int, queries: int, keys: int, output: bool = True) -> Cost:
    """One multi-head attention of `queries` to `keys` (to themselves, if as many)."""
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


def feedforward_cost(config: TransformerConfig, *, batch: int, length: int) -> Cost:
    inputs = 2 if config.activation == "swiglu" else 1
    weights = (inputs + 1) * config.width * config.feedforward
    biases = config.feedforward_bias * (inputs * config.feedforward + config.width)
    return Cost(Counter({"feed-forward": weights + biases}), Counter({"feed-forward": batch * length * weights}))


def norm_cost(config: TransformerConfig) -> Cost:
    return Cost(Counter({"norms": config.width * (2 if config.normaliser == "layer" else 1)}), Counter())


def embedding_cost(config: TransformerConfig, source_words: int, target_words: int) -> Cost:
    words = source_words if config.tie == "all" else source_words + target_words
    positions = 2 * config.max_length if config.positions == "learned" else 0
    return Cost(Counter({"embedding": config.width * (words + positions)}), Counter())


def head_cost(config: TransformerConfig, words: int, *, batch: int, length: int) -> Cost:
    weights = config.width * words
    own = weights if config.tie == "none" else 0
    return Cost(Counter({"head": own}), Counter({"head": batch * length * weights}))


def transformer_cost(
    config: TransformerConfig,
    vocabulary: int | tuple[int, int],
    *,
    batch: int = 1,
    source_length: int = 1,
    target_length: int = 1,
) -> Cost:
    """One forward pass of `batch` sentence pairs of the given lengths."""
    if config.positions == "learned" and max(source_length, target_length) > config.max_length:
        raise OptionError(
            f"learned positions end at max_length {config.max_length}, got {max(source_length, target_length)} tokens",
            hint="a larger max_length makes the table longer",
        )
    words = (vocabulary, vocabulary) if isinstance(vocabulary, int) else vocabulary
    norm = norm_cost(config)
    encoder_block = (
        attention_cost(config, batch=batch, queries=source_length, keys=source_length)
        + feedforward_cost(config, batch=batch, length=source_length)
        + norm * 2
    )
    decoder_block = (
        attention_cost(config, batch=batch, queries=target_length, keys=target_length)
        + attention_cost(config, batch=batch, queries=target_length, keys=source_length)
        + feedforward_cost(config, batch=batch, length=target_length)
        + norm * 3
    )
    return (
        embedding_cost(config, *words)
        + encoder_block * config.layers
        + decoder_block * config.depth
        + (norm * 2 if config.norm == "pre" else NOTHING)
        + head_cost(config, words[1], batch=batch, length=target_length)
    )
