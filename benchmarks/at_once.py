"""Models that write all tokens at once against one that writes token by token: quality, repetitions and speed.

    python -m benchmarks.at_once --corpus "Multi30k en→de" --data test.en.gz test.de.gz --token-by-token RUN \\
        --at-once "masks=RUN" "masks, distilled=RUN" "graph=RUN" --json benchmarks/results/at_once_multi30k_h200.json
    python -m benchmarks.at_once --draw benchmarks/results/at_once_*.json
    python -m benchmarks.at_once --table benchmarks/results/at_once_multi30k_cpu.json benchmarks/results/at_once_multi30k_h200.json

Models take turns in one run. Times are from text to text, including the cutting into pieces, by the same call. Latency
is the time of one sentence by itself: the median over rounds of the mean over --sentences sentences of the test set.
Long latency is that of sentences of the test set joined until they have 30 words or more (tests have few sentences of
that length; only time is measured on them). Throughput is that of the test set, or of --batched sentences of it, in
batches of 64. A repetition is a word that equals the word before it. "Judged" means that the model that writes token by
token chooses among the candidates.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from sacrebleu.metrics import BLEU, CHRF

from benchmarks.plots import Line, draw, write_plot
from benchmarks.setting import setting, write_json
from manyheads.decoding.loading import load_translator
from manyheads.decoding.parallel_translator import ParallelTranslator
from manyheads.decoding.translator import Translator
from manyheads.text.corpus import Counts, Pair, check_paths
from manyheads.text.parallel import read_dev

LONG = 30
"""Words of a long sentence."""
BATCH = 64
ITERATIONS = (1, 2, 4, 10)
SEARCHES = {"greedy": {"beam": 1}, "beam 5": {"beam": 5}}
TOKEN_BY_TOKEN = "token by token"


@dataclass(frozen=True)
class System:
    """A model, and the options that it decodes with."""

    name: str
    how: str
    translator: Translator
    options: dict[str, Any]

    def __call__(self, lines: Sequence[str], batch: int) -> list[str]:
        search = self.translator.search(**self.options, batch=batch)
        return [found.text for found in self.translator.translate(lines, search)]

    def weights(self) -> Iterator[torch.Tensor]:
        """The weights of all models that take part, a judge included."""
        for translator in (self.translator, getattr(self.translator, "judge", None)):
            if translator is not None:
                yield from translator.single.parameters()
                yield from (matrix for matrix in translator.single.buffers() if matrix.dtype == torch.int8)

    def one_by_one(self, lines: Sequence[str]) -> list[str]:
        return [text for line in lines for text in self([line], 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="", help="what the test set is called")
    parser.add_argument("--data", nargs="+", help="the test set: a file of pairs, or one for each side")
    parser.add_argument("--token-by-token", help="a run folder")
    parser.add_argument("--at-once", nargs="+", default=[], metavar="NAME=RUN")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--sentences", type=int, default=100, help="that are translated one by one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, help="of the test set, from its beginning (default: all)")
    parser.add_argument("--batched", type=int, default=10**9, help="sentences that are translated in batches, for time")
    parser.add_argument(
        "--trained", type=Path, help="a file of the commands that made the runs; they are kept with the figures"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--draw", type=Path, nargs="+", metavar="JSON", help="only draw what was measured")
    parser.add_argument(
        "--table", type=Path, nargs="+", metavar="JSON", help="only show what was measured, machines side by side"
    )
    options = parser.parse_args()
    for path in options.draw or ():
        draw_results(path)
    if options.table:
        print(*table(*options.table), sep="\n")
    if options.data:
        measure_all(options)
    elif not (options.draw or options.table):
        parser.error("nothing to measure, nothing to show: --data, --draw or --table")


def measure_all(options: argparse.Namespace) -> None:
    pairs = read_dev(check_paths(options.data, "--data"), Counts())[: options.lines]
    systems = list(systems_of(options))
    rows = [quality(system, pairs) for system in systems]
    device = systems[0].translator.device
    head = {
        **setting(device), "trained": options.trained.read_text().splitlines() if options.trained else [], "corpus": options.corpus, "precision": systems[0].translator.precision, "sentences": len(pairs),
        "reference_repetitions": repetitions([target for _, target in pairs]), "rounds": options.rounds,
        "timed_one_by_one": told(spread([source for source, _ in pairs], options.sentences)),
        "timed_long": told(joined([source for source, _ in pairs], options.sentences)),
        "timed_in_batches": told(spread([source for source, _ in pairs], options.batched)),
    }  # fmt: skip
    for row, times in zip(rows, measure_times(systems, [source for source, _ in pairs], options), strict=True):
        row |= times
    for row in rows:
        row |= ratios(row, rows)
    show(rows)
    if options.json:
        write_json(options.json, {**head, "rows": rows})
        draw_results(options.json)


def systems_of(options: argparse.Namespace) -> Iterator[System]:
    def load(folder: str) -> Translator:
        return load_translator(folder, options.device, options.precision)

    first = load(options.token_by_token)
    yield from (System(TOKEN_BY_TOKEN, how, first, search) for how, search in SEARCHES.items())
    for given in options.at_once:
        name, _, folder = given.rpartition("=")
        translator = load(folder)
        assert isinstance(translator, ParallelTranslator)
        yield from ways_of(name, translator)
        if "teacher" in name and translator.recipe.parallel.writes != "end":  # same pieces, and several candidates
            yield from ways_of(f"{name}, judged", translator.judged_by(first))


def ways_of(name: str, translator: ParallelTranslator) -> Iterator[System]:
    if translator.recipe.parallel.writes == "graph":
        yield System(name, "1 pass", translator, {})
    else:
        yield from (System(name, counted(n), translator, {"iterations": n}) for n in ITERATIONS)


def counted(iterations: int) -> str:
    return f"{iterations} iteration{'s' if iterations > 1 else ''}"


# ── how good ────────────────────────────────────────────────────────────────────────────────────────────────────────


def quality(system: System, pairs: Sequence[Pair]) -> dict[str, Any]:
    references = [target for _, target in pairs]
    found = system([source for source, _ in pairs], BATCH)
    row = {
        "system": system.name, "how": system.how,
        "parameters": sum(weight.numel() for weight in system.weights()),
        "bleu": BLEU().corpus_score(found, [references]).score,
        "chrf": CHRF().corpus_score(found, [references]).score,
        "repetitions": repetitions(found),
    }  # fmt: skip
    print(json.dumps(row, ensure_ascii=False), file=sys.stderr, flush=True)
    return row


def repetitions(texts: Sequence[str]) -> float:
    """Words that equal the word before them, in percent of all words."""
    words = [text.split() for text in texts]
    again = sum(one == before for text in words for before, one in pairwise(text))
    return 100 * again / max(1, sum(map(len, words)))


# ── how fast ────────────────────────────────────────────────────────────────────────────────────────────────────────


def measure_times(
    systems: Sequence[System], lines: Sequence[str], options: argparse.Namespace
) -> Iterator[dict[str, float]]:
    some = spread(lines, options.sentences)
    long = joined(lines, options.sentences)
    batched = spread(lines, options.batched)
    works: dict[str, Callable[[System], object]] = {
        "latency_ms": lambda system: system.one_by_one(some),
        "long_latency_ms": lambda system: system.one_by_one(long),
        "sentences_s": lambda system: system(batched, BATCH),
    }
    before = 4 if systems[0].translator.device.type == "cuda" else 1  # by then all recordings are made
    spent = {name: in_turns(systems, work, options.rounds, before) for name, work in works.items()}
    for n in range(len(systems)):
        yield {
            "latency_ms": 1000 * spent["latency_ms"][n] / len(some),
            "long_latency_ms": 1000 * spent["long_latency_ms"][n] / len(long),
            "sentences_s": len(batched) / spent["sentences_s"][n],
        }


def in_turns(systems: Sequence[System], work: Callable[[System], object], rounds: int, before: int) -> list[float]:
    """The median seconds of each system, after `before` rounds that are not timed."""
    seconds: list[list[float]] = [[] for _ in systems]
    for turn in range(-before, rounds):
        for system, spent in zip(systems, seconds, strict=True):
            began = time.perf_counter()
            work(system)  # ends with text on the host, so nothing is left to wait for
            if turn >= 0:
                spent.append(time.perf_counter() - began)
    return [statistics.median(spent) for spent in seconds]


def spread(lines: Sequence[str], most: int) -> list[str]:
    """At most `most` lines, spread evenly over all of them."""
    count = min(most, len(lines))
    return [lines[n * len(lines) // count] for n in range(count)]


def told(lines: Sequence[str]) -> dict[str, float]:
    return {"sentences": len(lines), "mean_words": statistics.fmean(len(line.split()) for line in lines)}


def joined(lines: Sequence[str], most: int) -> list[str]:
    """Consecutive sentences joined until they have 30 words or more; at most `most` such texts."""
    found, words = [], []
    for line in lines:
        words += line.split()
        if len(words) >= LONG:
            found.append(" ".join(words))
            words = []
    return spread(found, most)


def ratios(row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """How many times as fast as the model that writes token by token, with each of its searches."""
    found = {}
    for other in (one for one in rows if one["system"] == TOKEN_BY_TOKEN):
        search = other["how"].replace(" ", "_")
        found[f"latency_against_{search}"] = other["latency_ms"] / row["latency_ms"]
        found[f"long_latency_against_{search}"] = other["long_latency_ms"] / row["long_latency_ms"]
        found[f"throughput_against_{search}"] = row["sentences_s"] / other["sentences_s"]
    return found


# ── what is shown ───────────────────────────────────────────────────────────────────────────────────────────────────


def show(rows: Sequence[dict[str, Any]]) -> None:
    columns = {
        "bleu": ".2f", "chrf": ".2f", "repetitions": ".2f", "latency_ms": ".1f", "long_latency_ms": ".1f",
        "sentences_s": ",.0f", "long_latency_against_greedy": ".2f", "long_latency_against_beam_5": ".2f",
    }  # fmt: skip
    names = [f"{row['system']}, {row['how']}" for row in rows]
    width = max(map(len, names))
    print(" " * width, *columns, sep="  ")
    for name, row in zip(names, rows, strict=True):
        print(f"{name:<{width}}", *(f"{format(row[key], how):>{len(key)}}" for key, how in columns.items()), sep="  ")


def table(*paths: Path) -> list[str]:
    """The lines of a table: quality, as in the first file, and speed on each machine."""
    measured = [named(json.loads(path.read_text())["rows"]) for path in paths]
    return [
        f"| {name} | {row['bleu']:.1f} | {row['repetitions']:.1f} | {' | '.join(times(rows.get(name)) for rows in measured)} |"
        for name, row in measured[0].items()
    ]


def named(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {name_of(row): row for row in rows}
    if len(found) < len(rows):
        raise ValueError(f"each line of a table has a name of its own, got {', '.join(map(name_of, rows))}")
    return found


def name_of(row: dict[str, Any]) -> str:
    return f"{row['system']}, {row['how']}".replace(", from the teacher", "")


def times(row: dict[str, Any] | None) -> str:
    if row is None:
        return "– | –"
    return f"{row['long_latency_ms']:,.{1 if row['long_latency_ms'] < 20 else 0}f} | {row['sentences_s']:,.0f}"


def short(how: str) -> str:
    """The name of a search, or only the number of iterations or passes."""
    return how if how in SEARCHES else how.partition(" ")[0]


def draw_results(path: Path) -> None:
    result = json.loads(path.read_text())
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in result["rows"]:
        by_name.setdefault(row["system"], []).append(row)
    lines = [
        Line(name, [(row["long_latency_ms"], row["bleu"]) for row in rows], labels=[short(row["how"]) for row in rows])
        for name, rows in by_name.items()
    ]
    title = f"{result['corpus']}: what quality costs, on {result['machine']}"
    write_plot(
        path.with_suffix(".svg"), draw(title, f"ms for a sentence of {LONG} words or more", "BLEU", lines, log="x")
    )


if __name__ == "__main__":
    with torch.no_grad():
        main()
