"""A second opinion: what was written at once is read by a model that writes token by token, which takes the likeliest.

Reading a text is one pass, however long it is, so a judge costs little compared with writing token by token. It makes
up for what words that were written at the same time did not know of each other, if one of several candidates has it
right. (Gu et al. 2018, "Non-Autoregressive Neural Machine Translation".)

B sentences · K candidates of each · S source tokens · T places of the longest
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.decoding.ensemble import Ensemble
from manyheads.decoding.forced import behind_begin, log_p_of
from manyheads.decoding.hypothesis import Hypothesis, length_penalty
from manyheads.decoding.seen import Seen, unseen
from manyheads.decoding.way import Way, ranked
from manyheads.errors import OptionError
from manyheads.models.parallel import ParallelTransformer
from manyheads.models.transformer import Transformer
from manyheads.text.tokenizer import END, PADDING

if TYPE_CHECKING:
    from manyheads.decoding.translator import Translator

__all__ = ["Judged", "WriterAndJudge", "check_judge", "narrowed"]

HELD = 1_024
"""Places whose logits are held at the same time on a CPU: memory is bounded, and reused."""


class WriterAndJudge(nn.Module):
    """A model that writes all tokens at once, and the one that judges what it has written.

    alpha   the exponent of the length penalty by which the judge compares
    """

    def __init__(self, writer: ParallelTransformer, judge: Transformer | Ensemble, alpha: float) -> None:
        super().__init__()
        self.writer, self.judge, self.alpha = writer, judge, alpha
        self.training = False  # it has no dropout of its own; its two models keep their modes

    def opinion(
        self, source: Int[Tensor, "B S"], words: Int[Tensor, "B K T"], lengths: Int[Tensor, "B K"]
    ) -> Float[Tensor, "B K"]:
        """The judge's log P of each candidate, its end included."""
        labels = with_end(words, lengths)
        some = max(1, HELD // labels[0].numel()) if source.is_cpu else len(source)
        parts = zip(source.split(some), labels.split(some), strict=True)
        return torch.cat([read_as_a_whole(self.judge, *part) for part in parts])


@dataclass(frozen=True)
class Judged(Way):
    """A way of writing whose candidates are compared by a judge.

    kind    how candidates are written
    alpha   the exponent of the length penalty by which they are compared
    """

    kind: type[Way]
    alpha: float

    @property
    def inner(self) -> Way:
        return self.kind(self.how, self.longest)

    @property
    def rows(self) -> int:
        """Rows that the work of the writer and the judge on a sentence amounts to.

        A graph has places for several translations, so that all its candidates are one more row.
        """
        return self.inner.rows if self.inner.rows > 1 else min(2, self.how.lengths_tried)

    def room(self, model: WriterAndJudge, source: int) -> int:
        return self.inner.room(model.writer, source)

    def compute(
        self, model: WriterAndJudge, source: Int[Tensor, "B S"], room: int | None = None, seen: Seen = unseen
    ) -> Any:
        """As the kind does, but with the judge's log-probabilities for the candidates that have one."""
        found = self.inner.compute(model.writer, source, room, seen)
        return self.judge(model, source, found if room else narrowed(found))

    def judge(self, model: WriterAndJudge, source: Int[Tensor, "B S"], found: Any) -> Any:
        opinion = model.opinion(source, found.words, found.lengths)
        own = found.log_probability
        return found._replace(log_probability=torch.where(own.isfinite(), opinion, own))

    def needs(self, computed: Any) -> int:
        return self.inner.needs(computed)

    def read(self, computed: Any) -> list[list[Hypothesis]]:
        return [
            ranked(self.weighed(one) for one in hypotheses if one.finite) for hypotheses in self.inner.read(computed)
        ]

    def weighed(self, one: Hypothesis) -> Hypothesis:
        """Scored as in a search, over all that the judge has read: the words and the end."""
        return replace(one, score=one.log_probability / length_penalty(len(one.ids) + 1, self.alpha))


def narrowed(found: Any) -> Any:
    """Cut to the width of the longest candidate, for which the host waits."""
    return found._replace(words=found.words[:, :, : int(found.lengths.max())])


def with_end(words: Int[Tensor, "B K T"], lengths: Int[Tensor, "B K"]) -> Int[Tensor, "B K T+1"]:
    """The words of each candidate, its end, then padding."""
    places = torch.arange(words.shape[2] + 1, device=words.device)
    end = lengths[..., None]
    return F.pad(words, (0, 1)).masked_fill(places > end, PADDING).masked_fill(places == end, END)


def read_as_a_whole(
    judge: Transformer | Ensemble, source: Int[Tensor, "B S"], labels: Int[Tensor, "B K T"]
) -> Float[Tensor, "B K"]:
    """The judge's log P of each candidate. A source is read once for all of them."""
    model: Any = judge  # a Transformer and an Ensemble have caches of different types
    cache = model.start(model.encode(source))
    cache.share(labels.shape[1])
    rows = labels.flatten(0, 1)
    return log_p_of(rows, model.step(behind_begin(rows), cache)).view_as(labels).sum(2)


def check_judge(judge: "Translator", writer: "Translator") -> None:
    for one in (writer, judge):
        if one.judges:
            raise OptionError("a judge and the model it judges must not have judges already, got one that does")
    if writer.recipe.parallel.writes == "end":
        raise OptionError(
            "a judge needs several candidates to choose among, got a model that writes only one, up to its end"
        )
    if judge.device != writer.device:
        raise OptionError(
            f"a judge must be on the same device as the model it judges, got {judge.device} and {writer.device}"
        )
    if judge.longest < writer.longest:
        raise OptionError(
            f"a judge must have at least as many positions as the model it judges, got {judge.longest:,} for a model with "
            + (f"{writer.longest:,}" if writer.model.config.positions == "learned" else "no limit")
        )
    for side in ("source", "target"):
        theirs, ours = (getattr(one.vocabulary, side) for one in (judge, writer))
        if theirs.as_json() != ours.as_json():
            raise OptionError(
                f"a judge must cut text into the same pieces as the model it judges, got {theirs.size:,} {side} pieces that differ from its {ours.size:,}",
                hint="`train parallel/… --from JUDGE` gives a model the judge's pieces",
            )
