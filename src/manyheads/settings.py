"""The sections of a recipe except [model] (models/config.py): every key of a run, checked before anything is computed.

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
    """[data]: how files are read and cut into pieces.

    vocabulary         maximum size of a vocabulary, in pieces; both sides share one if model.tie is "all", otherwise
                       each has its own
    tokenizer          what a text is cut into: "bpe", "characters" or "symbols" (separated by spaces)
    target_tokenizer   tokenizer of the target (default: as tokenizer)
    max_length         maximum length of a sentence in training, in pieces without its end; longer pairs are left out
                       and counted (for "embed" and "classify", longer texts are cut and counted)
    bpe_dropout        probability of skipping a merge when a sentence is cut into pieces, anew in every epoch (0.1
                       helps if there is little data); 0 = always the same pieces
    backwards          write the target from its end to its beginning; such a model is a good judge of others (translate
                       --judge)
    source, target     names of the sides in files that name them: keys of JSONL, languages of TMX and PO
    bad_lines          what to do with lines that are not UTF-8 or not a pair, which are counted in any case: "error"
                       refuses the file; "skip" leaves them out; "replace" puts U+FFFD in place of bytes that are not
                       UTF-8 and leaves out lines that are not a pair
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
            yield f"both sides are named, and differently, or neither is, got source = {self.source!r} and target = {self.target!r}"
        if self.bpe_dropout and "bpe" not in self.tokenizers:
            yield f"bpe_dropout is for the tokenizer 'bpe', got {self.bpe_dropout} and {self.tokenizer!r}"
        elif self.bpe_dropout and self.backwards:
            yield f"bpe_dropout is not for models that write backwards, got bpe_dropout = {self.bpe_dropout} and backwards = true"

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
    """[train]: how a model is trained, validated and saved.

    epochs           passes over the training data
    steps            number of updates (optimizer steps), instead of epochs
    tokens           tokens of a batch on either side, padding included
    accumulate       parts that a batch is computed in, one after the other, to save memory; the gradient is the same
    optimizer        "adamw", or "muon" for the hidden matrices with AdamW for everything else
    rate             highest learning rate
    warmup           steps until the rate is reached; never more than a tenth of the run
    schedule         what the rate does after warmup: it falls with the "inverse-sqrt" of the step, or as a "cosine"
                     to 0 at the end, or stays and falls to 0 over the last fifth ("stable-decay")
    weight_decay     weight decay of matrices; each step takes off this share times the rate
    clip             largest norm of the gradient; 0 = no limit
    smoothing        share of the probability that label smoothing spreads over the vocabulary, or over the labels of a
                     classifier ("embed" only compares pairs and has none)
    simcut           weight α of SimCut, which keeps predictions the same when words are cut out of the pair; 0 = off
    cut              share of the words of source and target that SimCut cuts out
    rdrop            weight α of R-Drop, which keeps predictions the same under another dropout; 0 = off
    teachers         models whose predictions of each token are learnt besides the pairs: run folders, relative to
                     where the command runs, or names of bundled models; all have one vocabulary, which the new model
                     takes over
    taught           share of the loss that comes from the teachers; the rest comes from the true tokens
    glance           for models that write a graph: how many words of the target, drawn at random from all of them, a
                     second pass is shown, as a share of the number that a first pass gets wrong; the second pass is
                     learnt from; the share falls to a fifth of this by the end; 0 = off
    ema              decay of the moving average of the weights, which then is the model; 0 = none
    average          number of last checkpoints whose mean is the model (if there is no moving average)
    validate_every   steps between validations (default: a twentieth of the run)
    validate_lines   sources of the development set to translate at each validation; the loss is that of all of it
    save_every       steps between checkpoints (default: one at each validation)
    save_minutes     minutes after which a run is saved in any case, so that no more work than this is lost; 0 = only as
                     save_every says
    keep             number of checkpoints to keep
    freeze           parts to leave unchanged, separated by commas: "embeddings", "encoder", "decoder", or how names of
                     parameters begin
    patience         validations without a better score (or loss) before training stops; 0 = never stop early
    shard            split weights, gradients and the optimizer's state among several processes, for models that do
                     not fit on one device; slower
    precision        precision of matrix products: "bf16" or "fp32"; "auto" is bf16 if the device is good at it (on a
                     CPU, from a width of 256 on)
    fast             on one GPU in bf16: "on" packs sentences end to end and records a compiled update as a CUDA graph
                     (a model that writes a graph pads them, and records an update for each shape of batch); "off"
                     pads them and computes operation by operation; "auto" is "on" where possible if the run is long
                     enough to pay for compiling
    tensorboard      also write the curves for TensorBoard, to tensorboard/ in the folder of the run
    replay           keep in replay/ what every head does with one pair of the development set as the model learns, and
                     make inspect.html from it at the end
    seed             seed of everything random
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
        """Number of steps of a run."""
        return self.steps or self.epochs * batches_per_epoch

    def rules(self) -> Iterator[str]:
        if self.ema and self.average > 1:
            yield f"the model is the moving average or the mean of checkpoints, got ema = {self.ema} and average = {self.average}"
        if self.optimizer == "muon" and self.shard:
            yield "Muon needs whole matrices, got optimizer = 'muon' and shard = true"
        if self.teachers and not all(self.teachers):
            yield "a teacher must have a name, got one without"
        if len(set(self.teachers)) < len(self.teachers):
            yield f"each teacher must be named once, got teachers = {list(self.teachers)}"
        if self.teachers and not self.taught:
            yield f"teachers need a share of the loss, got taught = {self.taught:g} (teachers = [] means none)"
        if not self.teachers and self.taught != HALF:
            yield f"taught is the share of teachers, got taught = {self.taught:g} and no teachers"
        if self.simcut and self.rdrop:
            yield f"a model learns with SimCut or with R-Drop, got simcut = {self.simcut} and rdrop = {self.rdrop} (rdrop = 0 turns R-Drop off)"


@dataclass(frozen=True)
class DecodeConfig(Section):
    """[decode]: how a translator searches.

    beam             hypotheses kept at each step; 1 = greedy search
    length_penalty   exponent α: a hypothesis of n tokens is scored by log P / ((5 + n) / 6)^α
    max_source       longest line that is translated in one pass, in pieces; a longer one is translated sentence by
                     sentence (default: data.max_length)
    max_ratio        a translation has at most max_ratio × source pieces + max_extra pieces
    max_extra
    alignment        cross-attention that alignments are read from: "2" is that of layer 2, "2.3" that of its head 3,
                     both counted from 0; with ":read", the weights of the step that reads a word, not of the one that
                     writes it (default: found on the development set when training ends)
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
    """[embed]: how an encoder turns a text into one vector.

    pooling      how the vectors of the tokens become the vector of the text: their "mean", the "first", or their
                 largest number in each place ("max")
    normalise    scale vectors to length 1, so that a dot product is the cosine
    max_length   maximum length of a text in tokens, begin and end included; longer texts are cut and counted
    """

    pooling: Literal["mean", "first", "max"] = "mean"
    normalise: bool = True
    max_length: int = between(2, 1_048_576, default=512)


@dataclass(frozen=True)
class GenerateConfig(Section):
    """[generate]: how a language model continues a text.

    tokens        maximum number of tokens to write
    temperature   temperature of the draws: below 1, likely tokens become likelier; 0 = always the likeliest
    top_k         draw among this many of the likeliest tokens; 0 = all
    top_p         draw among the likeliest tokens that together have this probability
    """

    tokens: int = between(1, 1_048_576, default=100)
    temperature: float = between(0, 100, default=0.8)
    top_k: int = between(0, 16_777_216, default=0)
    top_p: float = between(0.0001, 1, default=0.95)


@dataclass(frozen=True)
class RefineConfig(Section):
    """[refine]: how a model that writes all tokens at once does so.

    iterations       how often masked places are filled in; a graph is read once
    lengths          how many lengths of a translation are tried, the likeliest first; for a graph, how many lengths
                     whose best path a judge sees
    length_penalty   exponent α for paths of several lengths, which are compared by log P / ((5 + n) / 6)^α
    """

    iterations: int = between(1, 1_000, default=10)
    lengths: int = between(1, 100, default=5)
    length_penalty: float = between(0, 10, default=1.0)


@dataclass(frozen=True)
class MaskConfig(Section):
    """[mask]: how an encoder is pre-trained on hidden words.

    words      share of the words of a text that are to be predicted, at least one word
    hidden     of the pieces of these words, the share that becomes the mask
    replaced   of the pieces of these words, the share that becomes another piece, drawn from all; the rest stay
               unchanged
    """

    words: float = between(0, 1, default=0.15)
    hidden: float = between(0, 1, default=0.8)
    replaced: float = between(0, 1, default=0.1)

    def rules(self) -> Iterator[str]:
        if self.hidden + self.replaced > 1:
            yield f"pieces are hidden or replaced or stay, got hidden = {self.hidden} and replaced = {self.replaced}"


@dataclass(frozen=True)
class Published(Section):
    """[published]: what the authors of a setting reported, for comparison. Nothing that computes reads it.

    source       publication that reports it
    on           name of the set that `bleu` was measured on
    parameters   number of parameters, in millions
    perplexity   per piece, on the development set
    bleu         on the set that `on` names
    """

    source: str = ""
    on: str = ""
    parameters: float | None = None
    perplexity: float | None = None
    bleu: float | None = None
