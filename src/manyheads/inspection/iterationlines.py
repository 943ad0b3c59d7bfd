"""How a model that writes all at once arrived at its text, in a terminal: its iterations, or the path through a graph.

A row is an iteration, a column a place. Places that do not fit side by side continue below.
"""

from collections.abc import Iterator, Sequence
from math import exp

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from manyheads.inspection.atonce import MASK, WrittenAtOnce
from manyheads.inspection.iterations import Attempt, Iteration
from manyheads.inspection.plane import label
from manyheads.inspection.vertices import ReadGraph

__all__ = ["draw_at_once"]

LONGEST_WORD = 18
NUMBER = 3
"""Columns of the terminal for the number of an iteration."""
CHANGED = "*"
BESIDE = 3
"""Other words shown per vertex."""
LEGEND = f"{MASK} masked before, written in this iteration; {CHANGED} changed"


def draw_at_once(console: Console, found: WrittenAtOnce) -> None:
    if found.graph is not None:
        draw_graph(console, found, found.graph)
        return
    if len(found.tries) > 1:
        draw_lengths(console, found.tries)
    draw_iterations(console, found.taken)


# ── places ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def draw_lengths(console: Console, tries: Sequence[Attempt]) -> None:
    console.print(Text("lengths tried", style="bold"))
    for one in sorted(tries, key=lambda one: -one.score):
        chance = "" if one.length_log_probability is None else f"P {exp(one.length_log_probability):.3f}  "
        line = f"{'●' if one.taken else ' '} {one.length:>3} places  {chance}score {minus(one.score)}  {label(one.text).replace('␣', ' ')}"
        console.print(Text(line, style="" if one.taken else "dim"), no_wrap=True, overflow="ellipsis")


def draw_iterations(console: Console, attempt: Attempt) -> None:
    iterations = attempt.iterations
    total = attempt.length
    heads = [f"{n:>2}  {told(one, total)}" for n, one in enumerate(iterations, 1)]
    widths, left = columns_of(iterations), max(map(cell_len, heads)) + 1
    console.print(Text(f"{total} places, {len(iterations)} iterations", style="bold"))
    for start, stop in blocks(console.width - left, console.width - NUMBER, widths):
        if start:
            console.print()
        for head, one in zip(heads, iterations, strict=True):
            line = Text().append(set_cell_size(head, NUMBER if start else left), "dim")
            for place in range(start, stop):
                line.append(set_cell_size(shown(one, place), widths[place] + 1), style_of(one, place))
            console.print(line, no_wrap=True, crop=True)
    console.print(Text(LEGEND + cut_legend(attempt), style="dim"))


def told(one: Iteration, total: int) -> str:
    """How many places were written, and how sure the model was of the least sure one."""
    least = min(range(total), key=lambda n: one.log_probability[n])
    return f"{sum(one.written):>3} of {total}  least sure {exp(one.log_probability[least]):.2f}"


def columns_of(iterations: Sequence[Iteration]) -> list[int]:
    return [max(cell_len(shown(one, place)) for one in iterations) for place in range(len(iterations[0].ids))]


def shown(one: Iteration, place: int) -> str:
    text = label(one.pieces[place]).lstrip("␣") or "␣"
    short = text if cell_len(text) <= LONGEST_WORD else f"{set_cell_size(text, LONGEST_WORD - 1)}…"
    return f"{MASK if one.written[place] else ' '}{short}{CHANGED if one.changed[place] else ''}"


def style_of(one: Iteration, place: int) -> str:
    if one.cut is not None and place > one.cut:
        return "dim"
    if one.changed[place]:
        return "bold red"
    return "bold" if one.written[place] else ""


def cut_legend(attempt: Attempt) -> str:
    return f"; cut at place {attempt.cut + 1}, the first end" if attempt.cut is not None else ""


def blocks(room: int, later: int, widths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of the places that fit side by side: the first time into `room`, then into `later`."""
    start, used = 0, 0
    for n, width in enumerate(widths):
        if used + width + 1 > (later if start else room) and n > start:
            yield start, n
            start, used = n, 0
        used += width + 1
    yield start, len(widths)


def minus(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


# ── a graph ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def draw_graph(console: Console, found: WrittenAtOnce, graph: ReadGraph) -> None:
    count = len(graph.vertices)
    console.print(Text(f"{count} vertices, a path through {len(graph.path)} of them", style="bold"))
    words = [label(graph.vertices[n].text).lstrip("␣") or "␣" for n in graph.path]
    wide = max(len("word"), min(LONGEST_WORD, max(map(cell_len, words))))
    console.print(Text(f"vertex  {set_cell_size('word', wide)}  P(word)  P(link to it)  others", style="dim"))
    for (before, n), word in zip(graph.steps, words, strict=False):
        vertex = graph.vertices[n]
        link = next(one for one in graph.vertices[before].links if one.to == n)
        assert vertex.log_probability is not None
        console.print(
            Text(
                f"{n:>6}  {set_cell_size(word, wide)}  {exp(vertex.log_probability):7.3f}  {exp(link.log_probability):13.3f}  "
                f"{others(found, n)}"
            ),
            no_wrap=True,
            crop=True,
        )
    console.print(Text("best path of each length, by score", style="bold"))
    best = sorted(graph.lengths, key=lambda one: -one.score)[:8]
    for one in best:
        taken = one.length == len(graph.path)
        line = f"{'●' if taken else ' '} {one.length:>3} words  log P {minus(one.log_probability)}  score {minus(one.score)}"
        console.print(Text(line, style="" if taken else "dim"))


def others(found: WrittenAtOnce, n: int) -> str:
    candidates = [one for one in found.choices[n].candidates if one.id != found.words[n]][:BESIDE]
    return "  ".join(f"{label(one.text).lstrip('␣') or '␣'} {exp(one.log_probability):.2f}" for one in candidates)
