"""A second opinion: what was written at once is read as a whole by a model that writes token by token, and what it finds likeliest is taken.

To read is one pass, however long the text, so that a judge costs little beside writing token by token: it makes good what words that were written at the same
time did not know of each other, as far as one of several candidates has it right. (Gu et al. 2018, "Non-Autoregressive Neural Machine Translation".)

B sentences · R candidates of all of them · S source tokens · T target tokens
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.batching import evaluating, pad
from manyheads.decoding.hypothesis import Hypothesis, length_penalty
from manyheads.errors import OptionError
from manyheads.text.tokenizer import BEGIN, END, PADDING

if TYPE_CHECKING:
    from manyheads.decoding.translator import Translator

__all__ = ["check_judge", "judged"]


def check_judge(judge: "Translator", writer: "Translator") -> None:
    if not judge.model.config.causal:
        raise OptionError("a judge writes token by token, got one that writes all at once")
    if judge.longest < writer.longest:
        raise OptionError(
            f"a judge reads all that the model can write, got a table of {judge.longest:,} positions for one of {writer.longest:,}"
        )
    for side in ("source", "target"):
        theirs, ours = (getattr(one.vocabulary, side) for one in (judge, writer))
        if theirs.as_json() != ours.as_json():
            raise OptionError(
                f"a judge cuts text into the same pieces as the model that it judges, got {theirs.size:,} {side} pieces that are not its {ours.size:,}",
                hint="`train parallel/… --from JUDGE` gives a model the judge's pieces",
            )


@torch.no_grad()
def judged(
    judge: "Translator", source: Int[Tensor, "B S"], found: Sequence[Sequence[Hypothesis]]
) -> list[list[Hypothesis]]:
    """The candidates of every sentence with the judge's scores, the best first. What has no finite score has nothing to be judged, and comes last."""
    flat = [(row, one) for row, candidates in enumerate(found) for one in candidates if one.finite]
    again: list[list[Hypothesis]] = [[one for one in candidates if not one.finite] for candidates in found]
    if not flat:
        return again
    rows = torch.tensor([row for row, _ in flat], device=source.device)
    labels = pad([[*one.ids, END] for _, one in flat]).to(source.device)
    with evaluating(judge.model), torch.autocast(source.device.type, enabled=False):
        log_p = read_as_a_whole(judge, source, rows, labels).tolist()
    alpha = judge.recipe.decode.length_penalty
    for (row, one), value in zip(flat, log_p, strict=True):
        score = value / length_penalty(len(one.ids) + 1, alpha)
        again[row].append(Hypothesis(one.ids, value, score, one.finished))
    return [sorted(candidates, key=lambda one: (not one.finite, -one.score)) for candidates in again]


def read_as_a_whole(
    judge: "Translator", source: Int[Tensor, "B S"], rows: Int[Tensor, " R"], labels: Int[Tensor, "R T"]
) -> Float[Tensor, " R"]:
    """log P of each candidate, its end included. A source is read once for all that belong to it."""
    model: Any = judge.model  # or an ensemble, which has caches of its own
    cache = model.start(model.encode(source))
    cache.select(rows)
    begin = torch.full_like(labels[:, :1], BEGIN)
    logits = model.step(torch.cat([begin, labels[:, :-1]], 1), cache).float()
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PADDING, reduction="none")
    return -loss.view_as(labels).sum(1)
