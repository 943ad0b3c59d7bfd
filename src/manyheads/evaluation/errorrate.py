"""An error rate with the interface of sacreBLEU's metrics, so that its significance tests can be used for it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric, Score

__all__ = ["ErrorRate"]


class ErrorRate(Metric):
    """Percent wrong. `count` returns (how many are wrong, out of how many) for an output and its references."""

    def __init__(
        self, name: str, references: Sequence[Sequence[str]], count: Callable[[str, Sequence[str]], tuple[int, int]]
    ) -> None:
        super().__init__()
        self.name, self.count = name, count
        self._ref_cache = [{"references": some} for some in references]
        self.num_refs = -1  # the number varies

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        return list(self.count(hypothesis, ref_kwargs["references"]))

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        wrong, total = stats
        return Score(self.name, 100 * float(wrong) / max(1, float(total)))

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Score:
        return self._compute_score_from_stats(np.sum(stats, 0))

    def _preprocess_segment(self, sent: str) -> str:
        return sent

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": refs}
