"""How places were filled in, again and again: what stood in each of them after every iteration, and how sure the model was.

    attempt = found.tries[0]                    one of the lengths that were tried
    attempt.iterations[2].pieces                what its places said after the third iteration
    attempt.read(2)                             what that iteration had read: None where a place was masked

The numbers are those of the decoding itself: `write_at_once` shows them on its way.

R rows: one for each length that is tried · T places of the longest
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
    """What stands in every place afterwards.

    pieces, ids       in every place
    log_probability   of each, when it was written
    written           was the place masked, and written in this iteration? Others were read as they stood, and stay
    changed           did it say something else before it was masked? In the first iteration nothing did
    cut               the place of the first end, behind which nothing counts; None where there is none
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

    length                   places
    length_log_probability   how likely the model held this length; None where none is predicted, or another was wished for
    log_probability, score   of what was written; the best score is taken
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
        """The place of the first end, which it and all behind it is cut off at; None where there is none."""
        return self.iterations[-1].cut

    def read(self, iteration: int) -> list[int | None]:
        """The ids that an iteration has read, counted from 0; None where a place was masked."""
        now = self.iterations[iteration]
        before = self.iterations[iteration - 1].ids if iteration else now.ids
        return [None if written else i for i, written in zip(before, now.written, strict=True)]


def read_attempts(
    tokenizer: Tokenizer, tried: Lengths | None, steps: Sequence[Filled], found: Sequence[Hypothesis], wished: bool
) -> list[Attempt]:
    """Of one sentence, the likeliest length first. `tried` is None where no length is predicted: then there is one row, up to an end."""
    first = steps[0]
    lengths = first.written.sum(-1).tolist()
    if tried is None:
        likely, hypotheses = [None], {lengths[0]: found[0]}
    else:
        likely = [None] * len(lengths) if wished else tried.log_probability[0].tolist()
        hypotheses = {len(one.ids): one for one in found}
    attempts = []
    for row, (length, chance) in enumerate(zip(lengths, likely, strict=True)):
        if chance == float("-inf"):  # a row that fills the batch: there are fewer possible lengths than were asked for
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
    """Those in which something was written: a short row is done before a long one."""
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
