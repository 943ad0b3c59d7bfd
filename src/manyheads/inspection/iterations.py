"""How places were filled in repeatedly: what stood in each after every iteration, and how sure the model was of it.

    attempt = found.tries[0]                    one of the lengths that were tried
    attempt.iterations[2].pieces                what stood in its places after the third iteration
    attempt.read(2)                             what that iteration had read: None where a place was masked

The numbers come from decoding itself: `write_at_once` reports them as it runs.

R rows, one for each length that is tried · T places of the longest
"""

from collections.abc import Sequence
from dataclasses import dataclass

from manyheads.decoding.hypothesis import Hypothesis
from manyheads.decoding.mask_predict import Filled
from manyheads.decoding.seen import Lengths
from manyheads.inspection.sides import name_pieces
from manyheads.text.tokenizer import END, Tokenizer

__all__ = ["Attempt", "Iteration", "read_attempts"]


@dataclass(frozen=True)
class Iteration:
    """What stands in every place after an iteration.

    pieces, ids       in every place
    log_probability   of each, when it was written
    written           whether the place was masked and was written in this iteration; others were read and stay
    changed           whether something else stood there before it was masked; never in the first iteration
    cut               the place of the first end, after which nothing counts; None if there is no end
    """

    pieces: list[str]
    ids: list[int]
    log_probability: list[float]
    written: list[bool]
    changed: list[bool]
    cut: int | None


@dataclass(frozen=True)
class Attempt:
    """Places for one length, and what was written there.

    length                   the number of places
    length_log_probability   how likely this length is to the model; None if it predicts none, or one was requested
    log_probability, score   of what was written; the attempt with the best score is taken
    """

    length: int
    length_log_probability: float | None
    text: str
    log_probability: float
    score: float
    taken: bool
    iterations: list[Iteration]

    @property
    def cut(self) -> int | None:
        """The place of the first end: that place and all after it are cut off. None if there is no end."""
        return self.iterations[-1].cut

    def read(self, iteration: int) -> list[int | None]:
        """The ids that an iteration, counted from 0, has read; None where a place was masked."""
        now = self.iterations[iteration]
        before = self.iterations[iteration - 1].ids if iteration else now.ids
        return [None if written else i for i, written in zip(before, now.written, strict=True)]


def read_attempts(
    tokenizer: Tokenizer, tried: Lengths | None, steps: Sequence[Filled], found: Sequence[Hypothesis], wished: bool
) -> list[Attempt]:
    """The attempts of one sentence, the likeliest length first.

    `tried` is None if no length is predicted: then there is one row, written up to an end.
    """
    first = steps[0]
    lengths = first.written.sum(-1).tolist()
    if tried is None:
        likely, hypotheses = [None], {lengths[0]: found[0]}
    else:
        likely = [None] * len(lengths) if wished else tried.log_probability[0].tolist()
        hypotheses = {len(one.ids): one for one in found}
    attempts = []
    for row, (length, chance) in enumerate(zip(lengths, likely, strict=True)):
        if chance == float("-inf"):  # a filler row: fewer lengths are possible than were requested
            continue
        one = hypotheses[length]
        iterations = list(read_iterations(tokenizer, steps, row, length))
        attempts.append(
            Attempt(
                length=length,
                length_log_probability=chance,
                text=tokenizer.decode(one.ids),
                log_probability=one.log_probability,
                score=one.score,
                taken=one is found[0],
                iterations=iterations,
            )
        )
    return attempts


def read_iterations(tokenizer: Tokenizer, steps: Sequence[Filled], row: int, length: int) -> list[Iteration]:
    """The iterations in which something was written: a short row is done before a long one."""
    found: list[Iteration] = []
    for step in steps:
        ids, log_p, written = (
            values[row, :length].tolist() for values in (step.words, step.log_probability, step.written)
        )
        if any(written):
            before = found[-1].ids if found else ids
            changed = [now != then for now, then in zip(ids, before, strict=True)]
            cut = ids.index(END) if END in ids else None
            found.append(Iteration(name_pieces(tokenizer, ids), ids, log_p, written, changed, cut))
    return found
