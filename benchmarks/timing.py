"""Time two things in one run, turn by turn, so that a busy machine slows both alike."""

import statistics
import time
from collections.abc import Callable

import torch

Work = Callable[[], object]


def seconds(work: Work, device: torch.device, repeats: int) -> float:
    """The mean time of one call, over `repeats` calls in a row. On a GPU, its own events measure it."""
    if device.type == "cuda":
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(repeats):
            work()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop) / 1000 / repeats
    begin = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - begin) / repeats


def side_by_side(
    ours: Work, theirs: Work, device: torch.device, rounds: int, at_least: float = 5.0
) -> dict[str, float]:
    """Median times, and the median over rounds of how many times faster ours is.

    On a CPU, which others may be using too, quick work gets more rounds, for at least `at_least` seconds.
    """
    for work in (ours, theirs, ours, theirs):
        work()
    repeats = 10 if device.type == "cuda" else 1
    if device.type == "cpu":
        rounds = max(rounds, int(at_least / (seconds(ours, device, 1) + seconds(theirs, device, 1))))
    pairs = []
    for turn in range(rounds):
        first, second = (ours, theirs) if turn % 2 else (theirs, ours)
        a, b = seconds(first, device, repeats), seconds(second, device, repeats)
        pairs.append((a, b) if turn % 2 else (b, a))
    return {
        "rounds": rounds,
        "ours_ms": 1000 * statistics.median(o for o, _ in pairs),
        "theirs_ms": 1000 * statistics.median(t for _, t in pairs),
        "ratio": statistics.median(t / o for o, t in pairs),
    }
