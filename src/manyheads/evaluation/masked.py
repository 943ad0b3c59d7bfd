"""How well a model knows words that are hidden from it.

The words hidden in a text are always the same, whatever else is scored with it. So the figures of two models with one
tokenizer can be compared, and so can those of one model while it learns.

M places whose pieces are requested · W words
"""

import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from manyheads.decoding.batching import CHUNK, CHUNK_CHARACTERS, batches_by_length, blocks
from manyheads.decoding.rounding import load_rounded
from manyheads.evaluation.rates import perplexity
from manyheads.machine import precision_of
from manyheads.modelfolder import load_masked_model
from manyheads.models.masked_model import MaskedModel
from manyheads.settings import MaskConfig
from manyheads.tasks.masked import MaskedBatch, pad_masked
from manyheads.text.corpus import TEXTS, Counts, Paths, ReadOptions, check_paths
from manyheads.text.dropout import one_after_the_other
from manyheads.text.masking import MASK, Masking
from manyheads.text.parallel import read_dev
from manyheads.text.shards import Rows
from manyheads.text.tokenizer import Tokenizer

__all__ = ["MaskedScore", "Prober", "evaluate_masked", "figures"]

SCORED = 64
"""Texts that are scored together."""
LONGEST = 16_384
"""Tokens of a text for models whose positions are unbounded: the cost of attention grows with the square of it."""


@dataclass(frozen=True)
class MaskedScore:
    """The score of one text.

    log_probability   of the pieces that were requested, natural logarithm
    tokens            the number of these pieces
    right             for how many of them the likeliest piece was the right one
    truncated         the text is longer than the model reads: the score is that of its beginning
    """

    log_probability: float
    tokens: int
    right: int
    truncated: bool = False


def figures(scores: Sequence[MaskedScore]) -> dict[str, float]:
    """Loss and perplexity per requested piece, and accuracy in percent of these pieces."""
    tokens = max(1, sum(one.tokens for one in scores))
    loss = -sum(one.log_probability for one in scores) / tokens
    accuracy = 100 * sum(one.right for one in scores) / tokens
    return {"loss": loss, "perplexity": perplexity(loss), "accuracy": accuracy}


class Prober:
    """A model with its tokenizer, and which words to hide."""

    def __init__(
        self, model: MaskedModel, tokenizer: Tokenizer, config: MaskConfig, reading: ReadOptions = TEXTS
    ) -> None:
        """`reading` is how it reads files."""
        self.reading = reading
        self.model, self.tokenizer, self.masking = model.eval(), tokenizer, Masking(tokenizer, config)
        longest = model.config.max_length if model.config.positions == "learned" else LONGEST
        self.most = longest - self.masking.around
        self.device = model.output_words.device

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto", precision: str = "auto") -> "Prober":
        model, vocabulary, recipe = load_rounded(load_masked_model, folder, device, precision)
        return cls(model, vocabulary.source, recipe.mask, replace(recipe.data.reading, texts=True))

    def score(self, texts: Iterable[str]) -> Iterator[MaskedScore]:
        """Yield the score of each text, in order."""
        for block in blocks(texts, CHUNK, CHUNK_CHARACTERS):
            yield from self.score_block(block)

    def score_block(self, texts: list[str]) -> list[MaskedScore]:
        pieces = self.tokenizer.encode(texts)
        keys = np.array([zlib.crc32(text.encode()) for text in texts])
        read, asked = self.masking(self.rows(pieces), keys)
        found = [MaskedScore(0.0, 0, 0)] * len(texts)
        for batch in batches_by_length(np.maximum(1, read.lengths).tolist(), SCORED, 4):
            some = pad_masked(read.some(batch), asked.some(batch)).to(self.device)
            for n, one in zip(batch, self.judge(some), strict=True):
                found[n] = MaskedScore(*one, truncated=len(pieces[n]) > self.most)
        return found

    def rows(self, pieces: Sequence[Sequence[int]]) -> Rows:
        """As much of each text as the model reads."""
        return one_after_the_other([np.array(ids[: self.most], np.int64) for ids in pieces])

    @torch.inference_mode()
    def judge(self, batch: MaskedBatch) -> list[tuple[float, int, int]]:
        """(log P, places, right) of each row."""
        log_p = self.model(*batch.inputs).float().log_softmax(-1)
        chosen = log_p.gather(-1, batch.labels[:, None])[:, 0]
        right = log_p.argmax(-1) == batch.labels
        sums = torch.zeros(len(batch.ids), 3, dtype=torch.float64)
        each = torch.stack([chosen.double(), torch.ones_like(chosen).double(), right.double()], 1).cpu()
        sums.index_add_(0, (batch.places // batch.ids.shape[1]).cpu(), each)
        return [(log, int(count), int(good)) for log, count, good in sums.tolist()]

    def sample(self, text: str) -> tuple[str, str, str]:
        """(the text with one word hidden, that word, the model's guess)"""
        ids = np.array(self.tokenizer.encode([text])[0][: self.most], np.int64)
        starts = np.flatnonzero(self.masking.begins[ids] | (np.arange(len(ids)) == 0))
        if not len(ids):
            return text, "", ""
        nth = zlib.crc32(text.encode()) % len(starts)
        first, last = int(starts[nth]), int(np.append(starts, len(ids))[nth + 1])
        before, word, after = (self.tokenizer.decode(some.tolist()).strip() for some in np.split(ids, (first, last)))
        guess = self.tokenizer.decode(self.fill(ids, first, last).tolist()).strip()
        return " ".join(filter(None, (before, MASK, after))), word, guess

    @torch.inference_mode()
    def fill(self, ids: Int[np.ndarray, " N"], first: int, last: int) -> Int[np.ndarray, " word"]:
        """The likeliest piece at each place of a word that is hidden completely."""
        hidden = ids.copy()
        hidden[first:last] = self.masking.mask
        whole = torch.tensor([[*self.masking.begin, *hidden, *self.masking.end]], device=self.device)
        places = torch.arange(first, last, device=self.device) + len(self.masking.begin)
        logits = self.model(whole, None, places)[:, torch.from_numpy(self.masking.pieces).to(self.device)]
        return self.masking.pieces[logits.argmax(-1).cpu().numpy()]


def evaluate_masked(prober: Prober, data: Paths) -> dict[str, Any]:
    """For files with one text per line: loss, perplexity and accuracy of hidden words.

    The result also counts what was found in the files.
    """
    counts, began = Counts(), time.monotonic()
    texts = [text for text, _ in read_dev(check_paths(data, "--data", prober.reading), counts)]
    scores = list(prober.score(texts))
    return figures(scores) | {
        "tokens": sum(one.tokens for one in scores),
        "lines": len(scores),
        "left_out": counts.left_out,
        "truncated": sum(one.truncated for one in scores),
        "precision": precision_of(prober.model.output_words.dtype),
        "seconds": time.monotonic() - began,
    }
