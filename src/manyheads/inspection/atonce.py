"""A model that writes all tokens at once, on one text: what it wrote, what it changed, and where its heads looked.

Decoder rows are the places themselves: row t reads place t, a mask if nothing is known yet, and writes place t. There
is no begin token, and each place sees all others. A model that fills in places several times makes several passes; the
attention is that of one of them, by default the last.

T places · S source pieces · W words
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.decoding.at_once import write_at_once
from manyheads.decoding.batching import evaluating
from manyheads.decoding.hypothesis import Hypothesis
from manyheads.decoding.mask_predict import Filled, words_alone
from manyheads.decoding.parallel_translator import ParallelTranslator
from manyheads.decoding.seen import Graph, Lengths
from manyheads.decoding.way import AtOnce, first_word
from manyheads.errors import InputError, OptionError, brief, choose
from manyheads.inspection.choices import Choice, read_choices
from manyheads.inspection.inspected import LONGEST, Translated, check_by_itself, check_finite, check_length, check_text
from manyheads.inspection.iterations import Attempt, read_attempts
from manyheads.inspection.sides import Piece, Side, Word, name_pieces, read_side
from manyheads.inspection.switches import INSTEAD, Head, head_means, switched_off
from manyheads.inspection.trace import trace
from manyheads.inspection.translated import as_line
from manyheads.inspection.vertices import FIRST_VERTEX, LAST_VERTEX, ReadGraph, read_graph
from manyheads.models.parallel import ParallelTransformer
from manyheads.text.tokenizer import END, Tokenizer

__all__ = ["MASK", "WrittenAtOnce", "write_text_at_once"]

MASK = "▢"
"""Stands for a place about which nothing is known."""
REFUSED = {
    "target": "it cannot be made to write a given text",
    "prefix": "it does not write from left to right",
    "ids": "it cannot be made to write a given text",
    "replay": "its training keeps no moments",
    "report": "reports on heads are for models that write token by token",
}
"""Options for inspecting other translators, and why each means nothing here."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WrittenAtOnce(Translated):
    """What a model that writes all at once did. The target's pieces are its places, or the vertices of its graph.

    hypothesis    the chosen one, as decoding returned it
    words         ids in the places after this pass, or the likeliest id of each vertex
    read          what the decoder read in this pass: the same places, with masks
    tries         the lengths that were tried, and every iteration of each; empty for a graph
    iteration     the pass that attention, choices and all other views show, counted from 1
    graph         the graph that was read; None if places were filled in
    """

    translator: ParallelTranslator
    hypothesis: Hypothesis
    words: list[int]
    read: Side
    tries: list[Attempt]
    iteration: int
    graph: ReadGraph | None

    @property
    def writes(self) -> str:
        """The way of writing: "mask", "end" or "graph"."""
        return self.translator.recipe.parallel.writes

    @property
    def taken(self) -> Attempt:
        """The attempt at the length that was chosen."""
        if self.graph is not None:
            raise OptionError("a graph is read once and has no iterations", hint="use found.graph")
        return next(one for one in self.tries if one.taken)

    @cached_property
    def log_probability(self) -> float:
        """The log-probability of all words, each from the iteration that wrote it; for a graph, of the path."""
        return self.hypothesis.log_probability

    @property
    def score(self) -> float:
        return self.hypothesis.score

    # ── rows are places ─────────────────────────────────────────────────────────────────────────────────────────────

    def looking(self, kind: str, read: bool = False) -> tuple[Side, list[Piece]]:
        side = self.source if kind == "encoder" else self.read if read else self.target
        return side, side.pieces

    def looked_at(self, kind: str) -> tuple[Side, list[Piece]]:
        side = self.read if kind == "decoder" else self.source
        return side, side.pieces

    def read_ids(self) -> tuple[list[int], list[int]]:
        return self.ids("source"), [piece.id for piece in self.read.pieces]

    def written_ids(self) -> list[int]:
        return self.words

    def allowed(self, logits: Float[Tensor, "*T W"]) -> Float[Tensor, "*T W"]:
        return words_alone(logits, first_word(cast(ParallelTransformer, self.model)))

    @property
    def asked(self) -> list[int]:
        """The places whose words this pass decided: the masked ones, or the vertices of the path."""
        if self.graph is not None:
            return self.graph.path
        return [n for n, written in enumerate(self.taken.iterations[self.iteration - 1].written) if written]

    @property
    def spelt(self) -> list[str]:
        """The vertices of a graph, joined in order, spell no text."""
        return ["source"] if self.graph is not None else super().spelt

    def log_probabilities(self, rows: int) -> list[float]:
        """The log-probability of what this pass decided: words in masked places, or the path with its links."""
        model = cast(ParallelTransformer, self.model)
        source, target = (
            torch.tensor([ids], device=model.words.weight.device).expand(rows, -1) for ids in self.read_ids()
        )
        states = model.states(target, model.encode(source))
        log_p = self.allowed(model.logits(states)).double().log_softmax(-1)
        words = self.written_ids()
        total = sum(log_p[:, n, words[n]] for n in self.asked)
        if self.graph is not None:
            assert model.link is not None
            last = torch.full((rows,), target.shape[1] - 1, device=target.device)
            links = model.link(states, last).double()
            total = total + sum(links[:, one, other] for one, other in self.graph.steps)
        return total.tolist()  # type: ignore[union-attr]

    def told(self) -> dict[str, Any]:
        return {
            "translation": self.translation,
            "score": self.score,
            **super().told(),
            "writes": self.writes,
            "part": self.part,
            "parts": self.parts,
            "read": asdict(self.read),
            "iteration": self.iteration,
            **({"tries": [asdict(one) for one in self.tries]} if self.graph is None else {"graph": asdict(self.graph)}),
        }


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_text_at_once(
    translator: ParallelTranslator,
    text: str,
    *,
    off: Collection[Head] = (),
    instead: str = "zero",
    part: int = 1,
    iteration: int | None = None,
    **options: Any,
) -> WrittenAtOnce:
    """Let a model translate a text and keep what it did.

    part        which part of a long text, counted from 1
    iteration   the one whose attention is kept, counted from 1; by default the last
    options     those of its search: iterations, lengths, length, stretch, length_penalty
    """
    for name in (name for name in REFUSED if options.get(name) is not None):
        raise OptionError(
            f"a model that writes all at once takes no {name}, got {brief(options[name])}: {REFUSED[name]}"
        )
    check_by_itself(translator)
    how = translator.search(**{name: value for name, value in options.items() if name not in REFUSED})
    check_wish(translator, how)
    parts, by_mean = translator.read([as_line(check_text(text))])[0], choose("instead", instead, INSTEAD)
    if not 1 <= part <= len(parts):
        raise OptionError(f"part must be from 1 to {len(parts)} for this text, got {part}")
    source, model = parts[part - 1], translator.model
    means = head_means(model, source, write(translator, source, how, iteration).read) if by_mean and off else None
    with switched_off(model, off, means):
        found = look(translator, source, write(translator, source, how, iteration))
    return replace(
        found, typed={"source": text, "target": None}, off=tuple(off), means=means, part=part, parts=len(parts)
    )


class Writing(NamedTuple):
    """What was written, and the ids that the inspected pass read, masks among them."""

    hypothesis: Hypothesis
    tries: list[Attempt]
    graph: ReadGraph | None
    words: list[int]
    iteration: int
    read: list[int]


def write(translator: ParallelTranslator, source: list[int], how: AtOnce, iteration: int | None) -> Writing:
    model, tokenizer, seen = translator.model, translator.vocabulary.target, list[Filled | Lengths | Graph]()

    def watch(one: Filled | Lengths | Graph) -> None:
        check_length(places_in(one), translator.longest)
        seen.append(one)

    check_length(len(source), translator.longest)
    with evaluating(model):
        rows = torch.tensor([source], device=translator.device)
        found = write_at_once(model, rows, how, translator.longest, watch)[0]
    if not found[0].finite:
        raise InputError("the model's numbers are not finite for this text: there is nothing to inspect")
    graphs = [one for one in seen if isinstance(one, Graph)]
    if graphs:
        check_iteration(iteration, 1)
        words = graphs[0].words[0].tolist()
        graph = read_graph(tokenizer, graphs[0], how.length_penalty)
        return Writing(found[0], [], graph, words, 1, [model.mask] * len(words))
    tried = next((one for one in seen if isinstance(one, Lengths)), None)
    steps = [one for one in seen if isinstance(one, Filled)]
    tries = read_attempts(tokenizer, tried, steps, found, how.wishes)
    taken = next(one for one in tries if one.taken)
    chosen = check_iteration(iteration, len(taken.iterations))
    read = [model.mask if i is None else i for i in taken.read(chosen - 1)]
    return Writing(found[0], tries, None, taken.iterations[chosen - 1].ids, chosen, read)


def check_wish(translator: ParallelTranslator, how: AtOnce) -> None:
    """Refuse a requested length that is too long to inspect. (The size of a graph does not depend on it.)"""
    most = min(translator.longest, LONGEST)
    if translator.recipe.parallel.writes == "mask" and how.length > most:
        raise OptionError(f"length must be at most {most:,} in an inspection, got {how.length:,}")


def places_in(seen: Filled | Lengths | Graph) -> int:
    """Places of the longest row. Lengths are seen before anything is written, so refusing a long text costs nothing."""
    return int(seen.tokens.max()) if isinstance(seen, Lengths) else seen.words.shape[1]


def check_iteration(iteration: int | None, count: int) -> int:
    if iteration is None:
        return count
    if isinstance(iteration, bool) or not isinstance(iteration, int) or not 1 <= iteration <= count:
        raise OptionError(f"iteration must be from 1 to {count} for this text, got {brief(iteration)}")
    return iteration


def look(translator: ParallelTranslator, source: list[int], writing: Writing) -> WrittenAtOnce:
    """Trace the inspected pass and assemble everything known about it."""
    model, hypothesis = translator.model, writing.hypothesis
    passed = check_finite(trace(model, source, writing.read))
    tokenizers = {"source": translator.vocabulary.source, "target": translator.vocabulary.target}
    target = (
        read_places(tokenizers["target"], writing.words)
        if writing.graph is None
        else read_vertices(tokenizers["target"], writing.graph, hypothesis.ids, model.mask)
    )
    return WrittenAtOnce(
        model=model,
        folder=translator.folder,
        sides={"source": read_side(tokenizers["source"], source), "target": target},
        tokenizers=tokenizers,
        typed={},
        trace=passed,
        choices=choices_of(model, tokenizers["target"], passed.logits, writing.words),
        forced=False,
        translator=translator,
        hypothesis=hypothesis,
        words=writing.words,
        read=masked(target, writing.read, model.mask, 0 if writing.graph else 1),
        tries=writing.tries,
        iteration=writing.iteration,
        graph=writing.graph,
    )


def choices_of(
    model: ParallelTransformer, tokenizer: Tokenizer, logits: Float[Tensor, "T W"], words: Sequence[int]
) -> list[Choice]:
    """What else each place could have said. `adds` is None: places are written at once, with no text before them."""
    found = read_choices(tokenizer, words_alone(logits, first_word(model)), words)
    return [
        replace(
            choice, candidates=[replace(one, adds=None) for one in choice.candidates if one.log_probability > -1e30]
        )
        for choice in found
    ]


# ── what stands in places ───────────────────────────────────────────────────────────────────────────────────────────


def read_places(tokenizer: Tokenizer, ids: Sequence[int]) -> Side:
    """The places as a side. The text ends at the first end token.

    Places after that were written but are not part of the text: each is a word of its own.
    """
    count = ids.index(END) + 1 if END in ids else len(ids)
    text = read_side(tokenizer, ids[:count])
    rest, at = name_pieces(tokenizer, ids[count:]), len(text.text)
    pieces = [
        Piece(name, i, at, at, len(text.words) + n) for n, (name, i) in enumerate(zip(rest, ids[count:], strict=True))
    ]
    return Side(text.text, [*text.pieces, *pieces], [*text.words, *(Word(name, at, at, special=True) for name in rest)])


def read_vertices(tokenizer: Tokenizer, graph: ReadGraph, ids: Sequence[int], mask: int) -> Side:
    """The vertices as a side. Each is a word of its own; those of the path have a place in the text."""
    text = read_side(tokenizer, ids)
    places = dict(zip(graph.path, text.pieces, strict=True))
    pieces, words = [], []
    for n, vertex in enumerate(graph.vertices):
        start, end = (places[n].start, places[n].end) if n in places else (0, 0)
        pieces.append(Piece(vertex.text, mask if vertex.id is None else vertex.id, start, end, n))
        words.append(
            Word(vertex.text, start, end, special=vertex.text in (FIRST_VERTEX, LAST_VERTEX) and vertex.id is None)
        )
    return Side(text.text, pieces, words)


def masked(side: Side, read: Sequence[int], mask: int, first: int) -> Side:
    """The same places and words as they were read, with a numbered mask where nothing was known, counted from `first`.

    In a graph those are all vertices between the first and the last.
    """
    pieces = [
        replace(piece, text=f"{MASK}{n}", id=mask) if i == mask and not side.words[piece.word].special else piece
        for n, (piece, i) in enumerate(zip(side.pieces, read, strict=True), first)
    ]
    words = list(side.words)
    for number, group in groupby(pieces, key=lambda piece: piece.word):
        of_word = list(group)
        if any(piece.id == mask for piece in of_word):
            spelt = "".join(piece.text for piece in of_word)
            words[number] = replace(words[number], text=spelt.strip())
    return Side(side.text, pieces, words)
