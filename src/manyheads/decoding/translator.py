"""A model with its tokenizers: text in, text out.

    translator = Translator.load("runs/de-en")          a run folder, or a bundled model: "de-en"
    translator("Ein Hund schläft.")                     one line
    translator(["Guten Tag.", "Bis morgen!"], beam=5)   several, in the order given

Lines are sorted by length inside and come out in the order they went in. What a line gives does not depend on what else is
in its batch, but for the rounding of sums.

B sentences · S source tokens · T target tokens
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import overload

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.decoding.aligned import with_alignments
from manyheads.decoding.alignment import link_words, read_weights, watch
from manyheads.decoding.batching import batches_by_length, evaluating, pad
from manyheads.decoding.beam import beam_search
from manyheads.decoding.control import (
    blocks_with_wishes,
    by_beam,
    draws,
    guided_search,
    make_script,
    rows_of_a_line,
    unmet,
    wishes_of_parts,
)  # fmt: skip
from manyheads.decoding.cutting import Cutter
from manyheads.decoding.ensemble import Ensemble
from manyheads.decoding.greedy import decode_one_by_one
from manyheads.decoding.hypothesis import Hypothesis
from manyheads.decoding.links import Alignment, Link
from manyheads.decoding.options import Search
from manyheads.decoding.reading import Reading
from manyheads.decoding.repetition import looped
from manyheads.decoding.rooms import applies, resident_search
from manyheads.decoding.rounding import check_finite, read_again
from manyheads.decoding.script import Script, Scripts
from manyheads.decoding.segments import join_parts
from manyheads.decoding.translation import BLANK, Alternative, ForcedScore, Translation
from manyheads.decoding.wishes import NO_WISHES, Wishes
from manyheads.decoding.words import word_characters
from manyheads.errors import OptionError, brief, did_you_mean
from manyheads.machine import choose_device, choose_dtype, precision_of
from manyheads.modelfolder import find_model, load_model, save_model
from manyheads.models.transformer import Transformer
from manyheads.recipe import Recipe
from manyheads.text.tokenizer import BEGIN, END, PADDING
from manyheads.text.vocabulary import Vocabulary

__all__ = ["Alternative", "ForcedScore", "Translation", "Translator"]

CHUNK = 4_096
"""Lines read, sorted and translated together: memory is bounded, however long the input."""


CHUNK_CHARACTERS = 2_000_000

LONGEST_SCORED = 2_048
"""Pieces of a pair that are scored; of a longer one the beginning. No sentence is longer, and memory is bounded."""

LONGEST_ALIGNED = 1_024
"""Pieces of a pair that are aligned: the weights of all heads are held in memory."""


class Translator:
    """A Transformer, its vocabulary, and how to search. It computes where the model is, in the model's precision."""

    def __init__(
        self, model: Transformer | Ensemble, vocabulary: Vocabulary, recipe: Recipe, folder: Path | None = None
    ) -> None:
        self.model, self.vocabulary, self.recipe = model, vocabulary, recipe
        self.folder = folder  # where it was loaded from, if it was

    @property
    def device(self) -> torch.device:
        return self.model.words.weight.device

    @property
    def precision(self) -> str:
        """Of the weights: "fp32", "bf16" or "fp16"."""
        return precision_of(self.model.words.weight.dtype)

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto", precision: str = "auto") -> "Translator":
        """From a run folder or the name of a bundled model. Loading runs no code from it, and checks every file.

        precision   "fp32", "bf16" or "fp16" ("auto": fp16 on a GPU, fp32 elsewhere)
        """
        chosen = choose_device(device)
        dtype = choose_dtype(chosen, precision)
        model, vocabulary, recipe = load_model(folder)
        check_finite(model.to(chosen, dtype))
        return cls(model, vocabulary, recipe, find_model(folder).absolute())

    def naming(self, source: str | None, target: str | None) -> "Translator":
        """The same, for files that call the sides so: keys of JSONL, languages of TMX and PO. None: as the recipe says."""
        if source is None and target is None:
            return self
        data = replace(self.recipe.data, source=source, target=target)
        return Translator(self.model, self.vocabulary, replace(self.recipe, data=data), self.folder)

    def save(self, folder: str | Path, store: str = "fp32") -> None:
        """To a folder of its own, for others. As "fp16" or "int8" it takes a half or a quarter of the room.

        Weights that were rounded to translate are read again from where they came from: the precision does not matter.
        """
        if isinstance(self.model, Ensemble):
            raise OptionError(f"models are saved one by one, got an ensemble of {len(self.model.members)}")
        model = self.model if self.precision == "fp32" else read_again(self.model, self.folder)
        save_model(folder, model, self.vocabulary, self.recipe, store)

    @overload
    def __call__(self, text: str, *, wishes: Wishes = ..., **options: float) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], *, wishes: Wishes = ..., **options: float) -> list[str]: ...
    def __call__(self, text: str | Sequence[str], *, wishes: Wishes = NO_WISHES, **options: float) -> str | list[str]:
        """The translation of a text (of several lines, if it has them), or of each in a list.

        The wishes are for every line. Options are those of `Search`: beam, length_penalty, temperature, …
        """
        search = self.search(**options)
        if search.outputs > 1:
            raise OptionError(
                "a call gives the best translation of each text", hint="translate([text], search) gives n_best"
            )
        if not isinstance(text, (str, Iterable)) or isinstance(text, bytes):
            raise OptionError(f"a translator takes a text or a list of texts, got {brief(text)}")
        if isinstance(text, str):
            return "\n".join(t.text for t in self.translate(text.split("\n"), search, wishes=wishes))
        texts = [checked_text(one).split("\n") for one in text]
        lines = (t.text for t in self.translate(chain.from_iterable(texts), search, wishes=wishes))
        return ["\n".join(islice(lines, len(one))) for one in texts]

    def search(self, **options: float) -> Search:
        """How the recipe says to search, with options changed. If none says otherwise, the beam fits what is asked for."""
        known = {field.name for field in fields(Search)}
        for name in sorted(options.keys() - known):
            raise OptionError(f"{name!r} is no option of a search", hint=did_you_mean(name, sorted(known)))
        decode, n_best = self.recipe.decode, options.get("n_best")
        beam = 1 if options.get("sample") else max(decode.beam, n_best if isinstance(n_best, int) else 1)
        defaults = {"beam": beam, "length_penalty": decode.length_penalty, "max_ratio": decode.max_ratio, "max_extra": decode.max_extra}  # fmt: skip
        return Search(**(defaults | options))  # type: ignore[arg-type]

    def translate(
        self,
        lines: Iterable[str],
        search: Search | None = None,
        *,
        wishes: Wishes | Iterable[Wishes] = NO_WISHES,
        chunk: int = CHUNK,
        align: Reading | None = None,
    ) -> Iterator[Translation]:
        """A translation for every line, in order; a blank line gives a blank one. `chunk` lines are read at a time.

        The wishes are the same for every line, or as many as there are lines. With `align`, which `reading` gives, every
        alternative says which words belong together.
        """
        if isinstance(lines, str):
            raise OptionError("translate takes lines, got one text", hint="translator(text), or translate([text])")
        search = search or self.search()
        for first, block, wished in blocks_with_wishes(blocks(lines, chunk, CHUNK_CHARACTERS), wishes):
            yield from self.translate_block(block, search, first, wished, align)

    def translate_distinct(self, lines: Sequence[str], search: Search | None = None) -> list[str]:
        """A text for every line; one that is there several times, with several references, is translated once."""
        distinct = list(dict.fromkeys(lines))
        texts = dict(zip(distinct, (t.text for t in self.translate(distinct, search)), strict=True))
        return [texts[line] for line in lines]

    @torch.no_grad()
    def translate_block(
        self, lines: list[str], search: Search, first: int, wishes: list[Wishes], align: Reading | None = None
    ) -> list[Translation]:
        parts = self.read(lines)
        sources = list(chain.from_iterable(parts))
        # The draws of a sample follow the line and, in it, the part.
        numbers = [first + n + (part << 40) for n, line in enumerate(parts) for part in range(len(line))]
        asked = [self.wishes_of_parts(line, wish) for line, wish in zip(parts, wishes, strict=True)]
        scripts = [self.script(ids, wish, search) for ids, wish in zip(sources, chain(*asked), strict=True)]
        found: list[list[Hypothesis]] = [[] for _ in sources]
        with evaluating(self.model):
            for batch in self.batches(sources, scripts, search):
                chosen = [sources[n] for n in batch], [numbers[n] for n in batch]
                outputs = self.search_batch(*chosen, search, [scripts[n] for n in batch])
                for n, hypotheses in zip(batch, outputs, strict=True):
                    found[n] = hypotheses
        in_order = iter(found)
        by_line = [list(islice(in_order, len(line))) for line in parts]
        joined = [self.join(hypotheses, search.outputs) for hypotheses in by_line]
        told = [
            self.with_unmet(*line) if any(line[1]) else line[0] for line in zip(joined, asked, by_line, strict=True)
        ]
        return with_alignments(self, lines, parts, by_line, told, align) if align else told

    def search_batch(
        self, sources: list[list[int]], numbers: list[int], search: Search, scripts: Sequence[Script | None] = ()
    ) -> list[list[Hypothesis]]:
        source = pad(sources).to(self.device)
        if kept := [script for script in scripts if script]:
            return guided_search(self.model, source, numbers, kept, search)
        limits = [search.limit(len(ids), self.longest) for ids in sources]
        if not search.sample and applies(self.model, source, limits, search.beam):
            return resident_search(self.single, source, limits, beam=search.beam, alpha=search.length_penalty)
        if search.beam > 1:
            return beam_search(self.model, source, limits, beam=search.beam, alpha=search.length_penalty)
        decode = partial(decode_one_by_one, self.model, source, limits, search.length_penalty)
        if not search.sample:
            return [[hypothesis] for hypothesis in decode()]
        return [[hypothesis] for hypothesis in decode(draws(search, numbers, max(limits)))]

    # ── wishes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def scripts(self) -> Scripts:
        return Scripts(self.vocabulary.target)

    def wishes_of_parts(self, parts: list[list[int]], wishes: Wishes) -> list[Wishes]:
        if not wishes:
            return [NO_WISHES] * len(parts)
        texts = [self.vocabulary.source.decode(ids) for ids in parts]
        return wishes_of_parts(wishes, texts, word_characters(self.vocabulary.source))

    def batches(self, sources: list[list[int]], scripts: list[Script | None], search: Search) -> Iterator[list[int]]:
        """Numbers of sources that are searched together: those without wishes as if there were no others."""
        for alike in by_beam(scripts, search):
            rows = rows_of_a_line(scripts[alike[0]], search)
            for places in batches_by_length([len(sources[n]) for n in alike], search.batch, rows):
                yield [alike[place] for place in places]

    def script(self, source: list[int], wishes: Wishes, search: Search) -> Script | None:
        if not wishes and not search.guided:
            return None
        return make_script(self.scripts, wishes, search, search.limit(len(source), self.longest), self.longest)

    def with_unmet(self, line: Translation, asked: list[Wishes], parts: list[list[Hypothesis]]) -> Translation:
        texts = [self.vocabulary.target.decode(hypotheses[0].ids) for hypotheses in parts]
        return replace(line, unmet=unmet(self.scripts, asked, texts, line.text))

    @property
    def longest(self) -> int:
        """Tokens a sequence may have: a table of learned positions ends."""
        config = self.model.config
        return config.max_length if config.positions == "learned" else 1 << 20

    @property
    def longest_source(self) -> int:
        """Pieces of what is read in one pass, without its end: no sentence was longer in training."""
        return max(1, min(self.recipe.data.max_length, self.longest - 1))

    @property
    def comfortable(self) -> int:
        """Pieces beyond which a line is translated sentence by sentence."""
        return self.recipe.decode.max_source or self.longest_source

    def read(self, lines: Sequence[str]) -> list[list[list[int]]]:
        """For each line the ids of its parts, each with its end. Most lines have one part, blank ones none."""
        cutter = Cutter(self.vocabulary.source, self.longest_source, self.comfortable, self.longest - 1)
        return [[[*part, END] for part in line] for line in cutter(lines)]

    def join(self, parts: list[list[Hypothesis]], n_best: int) -> Translation:
        """The parts of a line become one translation. Only a line in one part has several."""
        if not parts:
            return BLANK
        best = [hypotheses[0] for hypotheses in parts]
        found = {
            "truncated": any(not h.finished for h in best if h.finite),
            "looped": any(looped(h.ids) for h in best),
            "finite": all(h.finite for h in best),
        }
        if len(parts) == 1:
            alternatives = tuple(
                Alternative(self.vocabulary.target.decode(h.ids), h.score, h.log_probability) for h in parts[0][:n_best]
            )
            return Translation(alternatives, **found)
        text = join_parts(self.vocabulary.target.decode(h.ids) for h in best)
        whole = Alternative(text, sum(h.score for h in best), sum(h.log_probability for h in best))
        return Translation((whole,), parts=len(parts), **found)

    @torch.no_grad()
    def score(self, pairs: Sequence[tuple[str, str]], batch: int = 64) -> list[ForcedScore]:
        """log P(target | source) of every pair, in order, as exact as the weights: in half precision, to about three digits."""
        sources, written = self.encode_pairs(pairs)
        targets = [[*ids, END] for ids in written]
        lengths = [max(len(s), len(t)) for s, t in zip(sources, targets, strict=True)]
        most = min(self.longest, max(LONGEST_SCORED, 1 + self.recipe.data.max_length))
        sources, targets = ([ids[:most] for ids in side] for side in (sources, targets))
        scores = [ForcedScore(0.0, 0)] * len(pairs)
        with evaluating(self.model):
            for rows in batches_by_length([min(most, length) for length in lengths], batch, 4):
                log_p = self.forced([sources[n] for n in rows], [targets[n] for n in rows])
                for n, value in zip(rows, log_p, strict=True):
                    scores[n] = ForcedScore(value, len(targets[n]), truncated=lengths[n] > most)
        return scores

    def forced(self, sources: list[list[int]], targets: list[list[int]]) -> list[float]:
        source, labels = pad(sources).to(self.device), pad(targets).to(self.device)
        begin = torch.full_like(labels[:, :1], BEGIN)
        logits = self.model(source, torch.cat([begin, labels[:, :-1]], 1)).float()
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PADDING, reduction="none")
        return (-loss).view_as(labels).sum(1, dtype=torch.float64).tolist()

    # ── alignments ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def single(self) -> Transformer:
        """The model whose attention is read: of an ensemble, the first."""
        return self.model.first if isinstance(self.model, Ensemble) else self.model

    def reading(self, head: str | None = None) -> Reading:
        """The weights that alignments are read from: those of `head`, or those that the recipe names."""
        chosen = head or self.recipe.decode.alignment
        if chosen is None:
            raise OptionError(
                "alignments need to know which attention to read, got a recipe without decode.alignment",
                hint="training finds it; --align-head LAYER.HEAD names it, `find_reading(translator, pairs)` finds it",
            )
        reading, config = Reading.parse(chosen), self.single.config
        for fault in reading.misfits(config.depth, config.heads):
            raise OptionError(fault)
        return reading

    def align(self, pairs: Sequence[tuple[str, str]], head: str | None = None, batch: int = 64) -> list[Alignment]:
        """Which words of given pairs belong together, in order, as the weights say in their precision."""
        sources, targets = self.encode_pairs(pairs)
        most = self.longest_aligned
        cut = [max(len(s), len(t) + 1) > most for s, t in zip(sources, targets, strict=True)]
        return list(map(Alignment, self.links(sources, targets, self.reading(head), batch), cut))

    def links(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], reading: Reading, batch: int = 64
    ) -> list[tuple[Link, ...]]:
        """Links between the words of ids: sources with an end, targets without."""
        found: list[tuple[Link, ...]] = [()] * len(sources)
        for n, layers in self.watch(sources, targets, batch):
            weights = read_weights(layers, reading)
            target, source = weights.shape
            words = self.vocabulary.source.units(sources[n][:source]), self.vocabulary.target.units(targets[n][:target])
            found[n] = link_words(weights, *words)
        return found

    def watch(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], batch: int = 64
    ) -> Iterator[tuple[int, list[Tensor]]]:
        """Every head's weights of every pair, as `watch` gives them."""
        return watch(self.single, sources, targets, self.longest_aligned, batch)

    @property
    def longest_aligned(self) -> int:
        """Pieces, the begin or end included."""
        return min(self.longest, LONGEST_ALIGNED)

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> tuple[list[list[int]], list[list[int]]]:
        """Ids of the sources, each with its end, and of the targets, without."""
        sources = self.vocabulary.source.encode([source for source, _ in pairs])
        return [[*ids, END] for ids in sources], self.vocabulary.target.encode([target for _, target in pairs])


def checked_text(text: str) -> str:
    if not isinstance(text, str):
        raise OptionError(f"what is translated must be text, got {brief(text)}")
    return text


def blocks(lines: Iterable[str], most: int, characters: int) -> Iterator[list[str]]:
    """Up to `most` lines at a time; fewer if they are long."""
    block: list[str] = []
    room = characters
    for line in lines:
        block.append(checked_text(line))
        room -= len(line)
        if len(block) == most or room <= 0:
            yield block
            block, room = [], characters
    if block:
        yield block
