"""A translator whose model writes all tokens at once.

    translator = ParallelTranslator.load("runs/parallel")
    translator("Ein Hund schläft.", iterations=4)
    translator("Ein Hund schläft.", length=6)           in pieces; stretch=0.8 is a share of the length it would choose
    translator.judged_by(Translator.load("runs/de-en")) takes the candidate that this one finds likeliest

B pairs
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, fields
from math import ceil
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.at_once import way_of, write_at_once
from manyheads.decoding.batching import batches_by_length, evaluating, pad
from manyheads.decoding.ensemble import ensemble
from manyheads.decoding.hypothesis import Hypothesis
from manyheads.decoding.judging import WriterAndJudge, check_judge
from manyheads.decoding.options import Search
from manyheads.decoding.reading import Reading
from manyheads.decoding.rounding import load_rounded
from manyheads.decoding.script import Script
from manyheads.decoding.second_opinion import judges_of
from manyheads.decoding.through_a_graph import graph_states
from manyheads.decoding.translation import ForcedScore
from manyheads.decoding.translator import Translator
from manyheads.decoding.way import AtOnce, places_for
from manyheads.decoding.wishes import Wishes
from manyheads.errors import OptionError, did_you_mean
from manyheads.modelfolder import find_model, load_parallel_model
from manyheads.models.parallel import ParallelTransformer, as_difference, lengths_of
from manyheads.nn import Memory, Padded
from manyheads.nn.paths import log_likelihood
from manyheads.text.tokenizer import END, PADDING

__all__ = ["MEANINGLESS", "ParallelTranslator"]

BY_PATHS = "applies only to graphs, whose paths differ in length"
BY_MASKS = "applies only to models that predict the length of a translation"
BY_JUDGES = "applies to a graph only if a judge chooses among its paths"
NO_OTHER = "cannot be set for a model that writes up to an end"
MEANINGLESS: dict[str, dict[str, str]] = {
    "mask": {"length_penalty": BY_PATHS},
    "end": {"length_penalty": BY_PATHS, "lengths": BY_MASKS, "length": NO_OTHER, "stretch": NO_OTHER},
    "graph": {"lengths": BY_JUDGES, "iterations": "cannot be set for a graph, which is read once"},
}
"""For each way of writing, the options that mean nothing to it, and why."""


class ParallelTranslator(Translator):
    """A model that writes all tokens at once, with its vocabulary.

    If it has a judge, the judge chooses among the candidates that the model has written.
    """

    model: ParallelTransformer  # type: ignore[assignment]
    judge: Translator | None = None
    team: WriterAndJudge | None = None

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto", precision: str = "auto") -> "ParallelTranslator":
        model, vocabulary, recipe = load_rounded(load_parallel_model, folder, device, precision)
        return cls(model, vocabulary, recipe, find_model(folder).absolute())

    def judged_by(self, *judges: str | Path | Translator) -> "ParallelTranslator":
        """The same translator with a second opinion: several candidates are written, and the judge takes the likeliest.

        The judge is a model that writes token by token; several form an ensemble. Judges named by their folders are
        loaded to the device of this translator, in its precision.
        """
        if not judges:
            raise OptionError("a second opinion needs at least one other model, got none")
        those = judges_of(judges, self)
        judge = those[0] if len(those) == 1 else ensemble(those)
        check_judge(judge, self)
        same = copy(self)
        same.judges, same.judge = those, judge
        same.team = WriterAndJudge(self.model, judge.model, judge.recipe.decode.length_penalty)
        return same

    def search(self, **options: float) -> Any:
        """How the recipe says to write, with options changed.

        A length is a number of pieces; as a float, it is a multiple of the likeliest, as `stretch` is.
        """
        if isinstance(options.get("length"), float):
            options["stretch"] = options.pop("length")
        known = {field.name for field in fields(AtOnce)}
        of_searches = {field.name: field.default for field in fields(Search)}
        writes = self.recipe.parallel.writes
        for name in sorted(options.keys() - known):
            if name not in of_searches:
                raise OptionError(f"{name!r} is not an option of a search", hint=did_you_mean(name, sorted(known)))
            if name == "beam" or options[name] != of_searches[name]:
                value = "" if options[name] is True else f"{options[name]} for "
                raise OptionError(
                    f"{name} is for models that write token by token, got {value}one that writes all at once"
                )
        for name, why in MEANINGLESS[writes].items():
            if name in options and not (name == "lengths" and self.judge):
                raise OptionError(f"{name} {why}, got {options[name]}")
        said: dict[str, Any] = asdict(self.recipe.refine)
        if writes == "graph" and not self.judge:
            said["lengths"] = 1  # of several paths, only the best would be seen
        said.update((name, value) for name, value in options.items() if name in known)
        how = AtOnce(**said)
        if self.judge is not None and how.lengths_tried == 1:
            raise OptionError(
                "a judge needs translations of several lengths to choose among, got "
                + ("a request for one" if how.wishes else "lengths = 1")
            )
        return how

    def script(self, source: list[int], wishes: Wishes, search: Any) -> None:
        if wishes:
            raise OptionError(
                "prefixes and words that must or must not appear need a model that writes token by token, got one that writes all at once"
            )

    def reading(self, head: str | None = None) -> Reading:
        raise OptionError("alignments need a model that writes token by token, got one that writes all at once")

    def find(
        self, sources: Sequence[list[int]], numbers: Sequence[int], scripts: Sequence[Script | None], search: Any
    ) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[] for _ in sources]
        model = self.team or self.model
        # A judge reads a begin, too.
        longest = self.longest if self.judge is None else min(self.longest, self.judge.longest - 1)
        with evaluating(model):
            way = way_of(model, search, longest)
            for rows in batches_by_length([self.width(len(ids), search) for ids in sources], search.batch, way.rows):
                source = pad([sources[n] for n in rows]).to(self.device)
                for n, hypotheses in zip(rows, write_at_once(model, source, search, longest), strict=True):
                    found[n] = hypotheses
        return found

    def width(self, source: int, how: AtOnce) -> int:
        """About how many places a row has."""
        likes = self.recipe.parallel.places_for(source, source)
        return max(source, how.length or ceil(likes * how.stretch))

    @torch.no_grad()
    def score(self, pairs: Sequence[tuple[str, str]], batch: int = 64) -> list[ForcedScore]:
        """log P(target | source) of every pair, if the target is written in one pass.

        This is the probability of its length and its words, of its words and its end, or of all paths, as the model
        writes.
        """
        sources, targets = self.encode_pairs(pairs)
        most = self.longest_scored - 2  # room for an end, or for the first and the last vertex of a graph
        if self.recipe.parallel.writes == "graph":
            most = min(most, self.recipe.data.max_length)  # the cost of paths grows with the cube of it
        lengths = [max(len(s), len(t)) for s, t in zip(sources, targets, strict=True)]
        scores = [ForcedScore(0.0, 0)] * len(lengths)
        with evaluating(self.model):
            for rows in batches_by_length([min(most, length) for length in lengths], batch, 4):
                source, target = (
                    pad([sources[n][:most] for n in rows]),
                    pad([targets[n][:most] or [PADDING] for n in rows]),
                )
                memory, labels = self.model.encode(source.to(self.device)), target.to(self.device)
                log_p = SCORES[self.recipe.parallel.writes](self.model, memory, labels, self.longest)
                for n, value in zip(rows, log_p.double().tolist(), strict=True):
                    scores[n] = ForcedScore(value, len(targets[n][:most]) + 1, truncated=lengths[n] > most)
        return scores


def score_places(
    model: ParallelTransformer, memory: Memory, labels: Int[Tensor, "B T"], longest: int
) -> Float[Tensor, " B"]:
    """log P of the length, and of the words in places that are all masked."""
    assert model.length is not None
    counts = (labels != PADDING).sum(1)
    found = model.length(memory).gather(1, as_difference(counts, lengths_of(memory.layout))[:, None])[:, 0]
    return found + in_one_pass(model, memory, labels, counts).sum(1)


def score_to_the_end(
    model: ParallelTransformer, memory: Memory, labels: Int[Tensor, "B T"], longest: int
) -> Float[Tensor, " B"]:
    """log P of the words and of the end after them."""
    words = (labels != PADDING).sum(1)
    free = places_for(lengths_of(memory.layout), model.config.places, longest - 1) + 1  # type: ignore[attr-defined]
    places = torch.maximum(words + 1, free)
    wanted = torch.full((len(labels), int(places.max())), PADDING, device=labels.device)
    wanted[:, : labels.shape[1]] = labels
    wanted.scatter_(1, words[:, None], END)
    return in_one_pass(model, memory, wanted, places).sum(1)


def in_one_pass(
    model: ParallelTransformer, memory: Memory, labels: Int[Tensor, "B T"], counts: Int[Tensor, " B"]
) -> Float[Tensor, "B T"]:
    """log P of each label in its place; 0 where there is none."""
    places = torch.arange(labels.shape[1], device=labels.device)
    layout = Padded(tuple(labels.shape), places, labels.shape[1], places < counts[:, None])  # type: ignore[arg-type]
    logits = model.decode(torch.full_like(labels, model.mask), memory, layout)
    log_p = logits.float().log_softmax(-1).gather(2, labels[..., None])[..., 0]
    return log_p.masked_fill(labels == PADDING, 0)


def score_paths(
    model: ParallelTransformer, memory: Memory, labels: Int[Tensor, "B T"], longest: int
) -> Float[Tensor, " B"]:
    assert model.link is not None
    counts = (labels != PADDING).sum(1)
    free = places_for(lengths_of(memory.layout), model.config.places, longest - 2)  # type: ignore[attr-defined]
    last = torch.maximum(free, counts) + 1
    states = graph_states(model, memory, last)
    log_p = model.logits(states).float().log_softmax(-1)
    words = log_p.gather(2, labels[:, None].expand(-1, states.shape[1], -1)).mT
    links = model.link(states, last)
    nothing = links[:, 0].gather(1, last[:, None])[:, 0]  # straight from the first vertex to the last
    return torch.where(counts == 0, nothing, log_likelihood(words, links, counts.clamp(min=1), last))


SCORES = {"mask": score_places, "end": score_to_the_end, "graph": score_paths}
