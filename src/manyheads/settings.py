"""The sections of a recipe but the model's (models/config.py): every key that a run reads, checked before anything is computed.

Nothing here imports torch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from manyheads.decoding.reading import Reading
from manyheads.errors import OptionError
from manyheads.sections import Section, between
from manyheads.text.rows import BadLines, ReadOptions

__all__ = [
    "DataConfig",
    "DecodeConfig",
    "EmbedConfig",
    "GenerateConfig",
    "MaskConfig",
    "Published",
    "RefineConfig",
    "TrainConfig",
]

HALF = 0.5
TokenizerKind = Literal["bpe", "characters", "symbols"]


@dataclass(frozen=True)
class DataConfig(Section):
    """
    vocabulary         pieces of a vocabulary, at most; one vocabulary for both sides if model.tie is "all", else one each
    tokenizer          "bpe", "characters" or "symbols" (what stands between spaces)
    target_tokenizer   of the target, if another
    max_length         pieces of a sentence in training, without its end; longer pairs are left out and counted (encoders alone, "embed" and
                       "classify": longer texts are cut and counted)
    bpe_dropout        probability that a merge is left out when a sentence is cut into pieces, anew in every epoch (0.1 helps
                       where there is little data); 0 = always the same pieces
    backwards          the target is written from its end to its beginning: such a model is a good judge of others (translate --judge)
    source, target     what the sides are called in files that name them: keys of JSONL, languages of TMX
    bad_lines          lines that are not UTF-8 or no pair: "error" refuses the file, "skip" leaves them out, "replace" puts
                       U+FFFD for bytes that are not UTF-8 and leaves out what is no pair; all of them are counted
    """

    vocabulary: int = between(4, 16_777_216, default=8_000)
    tokenizer: TokenizerKind = "bpe"
    target_tokenizer: TokenizerKind | None = None
    max_length: int = between(1, 1_048_576, default=255)
    bpe_dropout: float = between(0, 0.9, default=0.0)
    backwards: bool = False
    source: str | None = None
    target: str | None = None
    bad_lines: BadLines = "error"

    def rules(self) -> Iterator[str]:
        if (self.source is None) != (self.target is None) or (self.source and self.source == self.target):
            yield f"both sides are named, differently, or none is, got source = {self.source!r} and target = {self.target!r}"
        if self.bpe_dropout and "bpe" not in self.tokenizers:
            yield f"bpe_dropout is for the tokenizer 'bpe', got {self.bpe_dropout} and {self.tokenizer!r}"
        elif self.bpe_dropout and self.backwards:
            yield f"words are cut anew from their beginning, got bpe_dropout = {self.bpe_dropout} and backwards = true"

    @property
    def reading(self) -> ReadOptions:
        """How the files of a corpus are read."""
        return ReadOptions(self.source, self.target, self.bad_lines)

    @property
    def tokenizers(self) -> tuple[str, str]:
        """(source, target)"""
        return self.tokenizer, self.target_tokenizer or self.tokenizer


@dataclass(frozen=True)
class TrainConfig(Section):
    """
    epochs           passes over the data
    steps            updates, instead of epochs
    tokens           of either side of a batch, padding included
    accumulate       parts a batch is computed in, one after the other, to save memory; the gradient is the same
    optimizer        "adamw", or "muon" for the hidden matrices and AdamW for all else
    rate             the highest learning rate
    warmup           steps until the rate is reached; never more than a tenth of the run
    schedule         what the rate does then: fall with the "inverse-sqrt" of the step, as a "cosine" to 0 at the end, or stay
                     and fall to 0 over the last fifth ("stable-decay")
    weight_decay     of matrices, a step times the rate
    clip             the gradient's norm, at most; 0 = any
    smoothing        share of the probability that label smoothing spreads over the vocabulary, or over the labels of a classifier (where pairs
                     are only compared, "embed", there is none)
    simcut           weight α of SimCut: the prediction should stay when words are cut out of the pair; 0 = off
    cut              share of the words that SimCut cuts out, of source and target
    rdrop            weight α of R-Drop: the prediction should stay under another dropout; 0 = off
    teachers         models that say, beside the pairs, what each token may be: run folders, as seen from where the command runs, or bundled
                     models by name; all have the vocabulary of the first, and so has what is trained
    taught           share of what is learnt that comes from them; the rest is the true token's
    glance           of a graph, the share of what a first look gets wrong that is shown before the second, which is learnt from; it falls to a fifth of
                     that by the end; 0 = off
    ema              decay of the moving average of the weights, which is then the model; 0 = none
    average          checkpoints, the last ones, whose mean is the model (if there is no moving average)
    validate_every   steps (default: a twentieth of the run)
    validate_lines   sources of the development set that are translated at each validation; the loss is of all of it
    save_every       steps (default: at each validation)
    save_minutes     after which a run is saved in any case, so that no more work is ever lost; 0 = it is saved in turn only
    keep             checkpoints
    freeze           parts that stay as they are: "embeddings", "encoder", "decoder", or the beginning of the names of
                     parameters, with commas between them
    patience         validations without a better score (or loss) before training stops; 0 = never stops early
    shard            among several processes, share out weights, gradients and the optimizer's state: for models that do not
                     fit on one device; slower
    precision        "bf16" or "fp32" ("auto": bf16 where the device is good at it; on a CPU, from a width of 256 on)
    fast             on one GPU in bf16, "on" packs sentences end to end and records an update, compiled, as a CUDA graph (a model
                     that writes a graph pads them, and records an update for each shape); "off" pads them and computes
                     operation by operation; "auto" is "on" where it can be and the run is long enough to pay for compiling
    tensorboard      write the curves for TensorBoard, too, to tensorboard/ in the folder of the run
    replay           keep what every head does with one pair of the development set, as it learns, in replay/, and make
                     inspect.html of it at the end
    seed             of everything random
    """

    epochs: int = between(1, 1_000_000, default=30)
    steps: int | None = between(1, 1_000_000_000, default=None)
    tokens: int = between(1, 1_000_000_000, default=25_000)
    accumulate: int = between(1, 10_000, default=1)
    optimizer: Literal["adamw", "muon"] = "adamw"
    rate: float = between(0, 100, default=7e-4)
    warmup: int = between(0, 1_000_000_000, default=4_000)
    schedule: Literal["inverse-sqrt", "cosine", "stable-decay"] = "inverse-sqrt"
    weight_decay: float = between(0, 10, default=0.0)
    clip: float = between(0, 1e9, default=1.0)
    smoothing: float = between(0, 0.99, default=0.1)
    simcut: float = between(0, 1_000, default=0.0)
    cut: float = between(0, 0.99, default=0.05)
    rdrop: float = between(0, 1_000, default=0.0)
    teachers: tuple[str, ...] = ()
    taught: float = between(0, 1, default=HALF)
    glance: float = between(0, 1, default=0.0)
    ema: float = between(0, 0.999999, default=0.0)
    average: int = between(1, 1_000, default=1)
    validate_every: int | None = between(1, 1_000_000_000, default=None)
    validate_lines: int = between(0, 1_000_000_000, default=1_000)
    save_every: int | None = between(1, 1_000_000_000, default=None)
    save_minutes: float = between(0, 1e6, default=10.0)
    keep: int = between(2, 1_000_000, default=2)
    patience: int = between(0, 1_000_000, default=0)
    freeze: str = ""
    shard: bool = False
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    fast: Literal["auto", "on", "off"] = "auto"
    tensorboard: bool = False
    replay: bool = True
    seed: int = between(0, 2**32 - 1, default=1)

    def steps_for(self, batches_per_epoch: int) -> int:
        """All steps of a run."""
        return self.steps or self.epochs * batches_per_epoch

    def rules(self) -> Iterator[str]:
        if self.ema and self.average > 1:
            yield f"the model is the moving average or the mean of checkpoints, got ema = {self.ema} and average = {self.average}"
        if self.optimizer == "muon" and self.shard:
            yield "Muon needs whole matrices, got optimizer = 'muon' and shard = true"
        if self.teachers and not all(self.teachers):
            yield "teachers are named, got one without a name"
        if len(set(self.teachers)) < len(self.teachers):
            yield f"each teacher is asked once, got teachers = {list(self.teachers)}"
        if self.teachers and not self.taught:
            yield f"teachers have a share in what is learnt, got taught = {self.taught:g} (teachers = [] is without)"
        if not self.teachers and self.taught != HALF:
            yield f"taught is the share of teachers, got taught = {self.taught:g} and no teachers"
        if self.simcut and self.rdrop:
            yield f"a model learns with SimCut or with R-Drop, got simcut = {self.simcut} and rdrop = {self.rdrop} (rdrop = 0 is without)"


@dataclass(frozen=True)
class DecodeConfig(Section):
    """
    beam             hypotheses kept at each step; 1 = greedy
    length_penalty   the exponent α: a hypothesis of n tokens is scored by log P / ((5 + n) / 6)^α
    max_source       pieces of a line beyond which it is translated sentence by sentence (default: data.max_length)
    max_ratio        a translation has at most max_ratio × source pieces + max_extra pieces
    max_extra
    alignment        the cross-attention that says which words belong together: "2" is that of layer 2, "2.3" of its head 3, both
                     counted from 0; with ":read" the weights of the step that reads a word, not of the one that writes it
                     (default: found on the development set when training ends)
    """

    beam: int = between(1, 1_000, default=4)
    length_penalty: float = between(0, 10, default=0.6)
    max_source: int | None = between(1, 1_048_576, default=None)
    max_ratio: float = between(0, 1_000, default=2.0)
    max_extra: int = between(1, 1_000_000, default=20)
    alignment: str | None = None

    def rules(self) -> Iterator[str]:
        try:
            Reading.parse(self.alignment or "0")
        except OptionError as error:
            yield error.message


@dataclass(frozen=True)
class EmbedConfig(Section):
    """
    pooling      what the vector of a text is made of its tokens' vectors: their "mean", the "first", or the largest of each number ("max")
    normalise    to length 1, so that a dot product is the cosine
    max_length   tokens of a text, begin and end included; longer texts are cut, and counted
    """

    pooling: Literal["mean", "first", "max"] = "mean"
    normalise: bool = True
    max_length: int = between(2, 1_048_576, default=512)


@dataclass(frozen=True)
class GenerateConfig(Section):
    """
    tokens        that are written, at most
    temperature   below 1 the likely becomes likelier; 0 = always the likeliest
    top_k         draw among the k likeliest tokens; 0 = all
    top_p         draw among the likeliest tokens that together have this probability
    """

    tokens: int = between(1, 1_048_576, default=100)
    temperature: float = between(0, 100, default=0.8)
    top_k: int = between(0, 16_777_216, default=0)
    top_p: float = between(0.0001, 1, default=0.95)


@dataclass(frozen=True)
class RefineConfig(Section):
    """
    iterations       how often masked places are filled in; a graph is read once
    lengths          of a translation that are tried, the likeliest ones; of a graph, whose best paths a judge sees
    length_penalty   the exponent α, where paths of several lengths are compared by log P / ((5 + n) / 6)^α
    """

    iterations: int = between(1, 1_000, default=10)
    lengths: int = between(1, 100, default=5)
    length_penalty: float = between(0, 10, default=1.0)


@dataclass(frozen=True)
class MaskConfig(Section):
    """
    words      share of the words of a text that are asked for; one at least
    hidden     share of their pieces that become the mask
    replaced   share of their pieces that become another, drawn from all; the rest stay as they are
    """

    words: float = between(0, 1, default=0.15)
    hidden: float = between(0, 1, default=0.8)
    replaced: float = between(0, 1, default=0.1)

    def rules(self) -> Iterator[str]:
        if self.hidden + self.replaced > 1:
            yield f"pieces are hidden or replaced or stay, got hidden = {self.hidden} and replaced = {self.replaced}"


@dataclass(frozen=True)
class Published(Section):
    """What the authors of a setting reported: to be compared with, never read by anything that computes.

    parameters   in millions
    perplexity   per piece, on the development set
    bleu         on the set that `on` names
    """

    source: str = ""
    on: str = ""
    parameters: float | None = None
    perplexity: float | None = None
    bleu: float | None = None
