"""`Writer`: continues a text.

    writer = Writer.load("runs/gpt2")
    writer("Once upon a time")                              what comes next
    for text in writer.stream("Once upon a time"):          … as it is written

T tokens of the prompt · W words
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.decoding.batching import CHUNK, CHUNK_CHARACTERS, batches_by_length, blocks, pad
from manyheads.decoding.greedy import Choose, Sampler, likeliest
from manyheads.decoding.rounding import load_rounded
from manyheads.errors import InputError, OptionError, brief, did_you_mean
from manyheads.generation.scoring import TextScore
from manyheads.modelfolder import find_model, load_language_model
from manyheads.models.language_model import LanguageModel
from manyheads.recipe import GenerateConfig
from manyheads.text.corpus import TEXTS, ReadOptions
from manyheads.text.foreign import ForeignPieces, frame_of
from manyheads.text.tokenizer import BEGIN, PADDING, Tokenizer

__all__ = ["Token", "Writer"]

SCORED = 64
"""Texts that are scored together."""
COLUMNS = 512
"""Tokens of each text whose logits are held at a time."""
LONGEST = 16_384
"""Tokens of a text for models whose positions are unbounded: the cost of attention grows with the square of it."""
HALF = "\ufffd"
"""What bytes decode to that are not a complete character yet."""


@dataclass(frozen=True)
class Token:
    """One token that was written.

    text              what it adds; empty while a character is incomplete
    log_probability   of the token, according to the model
    reason            why it is the last: "end" (of the text), "tokens" (as many as were requested),
                      "room" (the model can read no more)
    """

    id: int
    text: str
    log_probability: float
    reason: str | None = None


class Writer:
    """A language model with its tokenizer, and how to draw."""

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Tokenizer,
        config: GenerateConfig,
        folder: Path | None = None,
        reading: ReadOptions = TEXTS,
    ) -> None:
        """`folder` is where it was loaded from, if anywhere; `reading` is how it reads files."""
        self.reading = reading
        self.model, self.tokenizer, self.config, self.folder = model.eval(), tokenizer, config, folder
        self.begin, self.end = frame_of(tokenizer)
        foreign = tokenizer.specials if isinstance(tokenizer, ForeignPieces) else None
        # GPT-2 reads prompts as the middle of a text; a Llama's tokenizer puts its begin token before them.
        self.bare = isinstance(tokenizer, ForeignPieces) and not tokenizer.around("a")[0]
        self.never = sorted(({PADDING, BEGIN} if foreign is None else foreign) - set(self.end))

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto", precision: str = "auto") -> "Writer":
        """Load a model folder.

        precision   "fp32", "bf16", "fp16" or, on a CPU, "int8" ("auto": fp16 on a GPU, fp32 elsewhere)
        """
        model, vocabulary, recipe = load_rounded(load_language_model, folder, device, precision)
        reading = replace(recipe.data.reading, texts=True)
        return cls(model, vocabulary.source, recipe.generate, find_model(folder).absolute(), reading)

    def __call__(self, prompt: str, *, seed: int = 1, **options: float) -> str:
        """Return what comes after a text. Options are those of [generate]: tokens, temperature, top_k, top_p."""
        return "".join(self.stream(prompt, seed=seed, **options))

    def stream(self, prompt: str, *, seed: int = 1, **options: float) -> Iterator[str]:
        """The same, piece by piece, as it is written."""
        return (token.text for token in self.write(prompt, seed=seed, **options) if token.text)

    def write(self, prompt: str, *, seed: int = 1, **options: float) -> Iterator[Token]:
        """The same, with what is known of each token."""
        config = self.configured(options)
        ids = self.read(prompt)
        room = self.longest - len(ids)
        if room < 1:
            raise InputError(
                f"a prompt must leave room for new tokens, got {len(ids):,} tokens for a model that reads {self.longest:,}"
            )
        return self.follow(ids, config, min(config.tokens, room), choose_by(config, seed))

    @torch.inference_mode()
    def follow(self, ids: list[int], config: GenerateConfig, limit: int, choose: Choose) -> Iterator[Token]:
        device = self.model.words.weight.device
        past, tokens = self.model.start(), torch.tensor([ids], device=device)
        row, written = torch.zeros(1, dtype=torch.long, device=device), [i for i in ids if i not in self.begin]
        said = self.tokenizer.decode(written)
        for step in range(limit):
            log_p = self.log_probabilities(self.model.step(tokens, past)[:, -1])
            if not log_p.isfinite().any():
                raise InputError("the model's numbers are not finite for this text: there is nothing to draw from")
            tokens = choose(log_p, row, step)[:, None]
            token = int(tokens)
            ended = token in self.end
            written += [] if ended else [token]
            reason = "end" if ended else None if step + 1 < limit else "tokens" if limit == config.tokens else "room"
            text = self.tokenizer.decode(written)
            new = "" if text.endswith(HALF) and reason is None else text[len(said) :]
            said += new
            yield Token(token, new, float(log_p[0, token]), reason)
            if ended:
                return

    def score(self, texts: Iterable[str]) -> Iterator[TextScore]:
        """How likely each text is, including its end."""
        for block in blocks(texts, CHUNK, CHUNK_CHARACTERS):
            yield from self.score_block(block)

    def score_block(self, texts: list[str]) -> list[TextScore]:
        begin, end = self.begin[-1:], self.end[:1]
        if not begin or not end:
            raise InputError("scoring texts needs a model with tokens for their start and end, got one without them")
        found, pieces = [TextScore(0.0, 0, 0)] * len(texts), self.tokenizer.encode(texts)
        rows = [[*begin, *ids, *end] for ids in pieces]
        for batch in batches_by_length([min(len(row), self.longest + 1) for row in rows], SCORED, 4):
            log_p = self.forced([rows[n][: self.longest + 1] for n in batch])
            for n, value in zip(batch, log_p, strict=True):
                tokens, truncated = min(len(rows[n]) - 1, self.longest), len(rows[n]) - 1 > self.longest
                scored = (
                    len(self.tokenizer.decode(pieces[n][:tokens]).encode()) if truncated else len(texts[n].encode()) + 1
                )
                found[n] = TextScore(value, tokens, scored, truncated)
        return found

    @torch.inference_mode()
    def forced(self, rows: list[list[int]]) -> list[float]:
        """log P of each row after its first token."""
        lengths = torch.tensor([len(row) - 1 for row in rows])
        ids = pad(rows).to(self.model.words.weight.device)
        states, labels = self.model.states(ids[:, :-1]), ids[:, 1:]
        chosen = torch.cat(
            [
                self.model.logits(some).float().log_softmax(-1).gather(-1, wanted[..., None])[..., 0].cpu()
                for some, wanted in zip(states.split(COLUMNS, 1), labels.split(COLUMNS, 1), strict=True)
            ],
            1,
        )
        inside = torch.arange(chosen.shape[1]) < lengths[:, None]
        return torch.where(inside, chosen, 0).sum(1, dtype=torch.float64).tolist()

    def log_probabilities(self, logits: Float[Tensor, "1 W"]) -> Float[Tensor, "1 W"]:
        """Log-probabilities of the next token. Special tokens other than the end are never written."""
        log_p = logits.float().log_softmax(-1)
        log_p[:, self.never] = -torch.inf
        return log_p

    @property
    def longest(self) -> int:
        """Tokens that the model can read."""
        config = self.model.config
        return config.max_length if config.positions == "learned" else LONGEST

    def read(self, prompt: str) -> list[int]:
        if not isinstance(prompt, str):
            raise OptionError(f"a prompt must be text, got {brief(prompt)}")
        ids = self.tokenizer.encode([prompt])[0] if prompt else []
        if not ids and not self.begin:
            raise InputError("a model without a start token needs a prompt, got none")
        return ids if ids and self.bare else [*self.begin, *ids]

    def configured(self, options: dict[str, float]) -> GenerateConfig:
        known = [field.name for field in fields(GenerateConfig)]
        for name in options.keys() - set(known):
            raise OptionError(f"{name!r} is not an option of a writer", hint=did_you_mean(name, known))
        return replace(self.config, **options)  # type: ignore[arg-type]


def choose_by(config: GenerateConfig, seed: int) -> Choose:
    """The likeliest token, or a draw that follows from the seed."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise OptionError(f"seed must be a whole number from 0 to {2**32 - 1:,}, got {brief(seed)}")
    if config.temperature == 0:
        return likeliest
    how = {"temperature": config.temperature, "top_k": config.top_k, "top_p": config.top_p}
    return Sampler([0], seed=seed, **how)  # type: ignore[arg-type]
