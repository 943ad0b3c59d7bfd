"""What each head of the bundled translator does over its development set; does the ranking hold for other pairs?

    python -m benchmarks.heads
    python -m benchmarks.heads --outputs outputs.json      keeps what was translated; reads it if the file exists

Each head is switched off in turn, and all pairs are scored and translated without it, by greedy search. Then the pairs
are split: heads are ranked by the log-probability that the even pairs lose, and BLEU is that of the odd ones; and the
other way round.
"""

import argparse
import json
import platform
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from manyheads.decoding.translator import Translator
from manyheads.inspection.headreport import HeadReport, assemble, spread_over
from manyheads.inspection.looking import look_over
from manyheads.inspection.losing import Without, without
from manyheads.inspection.saving import save_report
from manyheads.inspection.switches import every_head
from manyheads.text.corpus import Counts, Pair, check_paths
from manyheads.text.parallel import read_dev

DEV = Path("src/manyheads/bundled/tatoeba/dev.tsv.gz")
RESULTS, PICTURE = Path("benchmarks/results/heads.json"), Path("docs/pictures/heads_lost.png")
SHOWN = 5
"""Heads at each end of a ranking that are reported, with the BLEU that other pairs lose without them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="de-en")
    parser.add_argument("--data", nargs="+", default=[str(DEV)])
    parser.add_argument("--limit", type=int)
    parser.add_argument("--outputs", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args()
    translator = Translator.load(options.model, "cpu", "fp32")
    pairs = read_dev(check_paths(options.data, "--data", translator.recipe.data.reading), Counts())
    some = spread_over(pairs, options.limit)
    done, seconds = kept(options.outputs) or every_one_without(translator, some)
    if options.outputs and not options.outputs.exists():
        without_heads = {name: asdict(one) for name, one in done.items()}
        options.outputs.write_text(json.dumps({"seconds": seconds, "without": without_heads}))
    report = reported(translator, some, len(pairs), done)
    found = {
        "command": command(options),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} thread(s) of a machine that others used as well",
        "torch": torch.__version__,
        "seconds": round(seconds, 1),
        "halves": [held_out(translator, some, done, half) for half in (0, 1)],
        "report": report.as_json(),
    }
    options.results.write_text(json.dumps(rounded(found), indent=1) + "\n")
    save_report(report, options.picture)
    print(json.dumps(found["halves"], indent=1))


def command(options: argparse.Namespace) -> str:
    """The command without `--outputs`: where outputs are kept changes nothing."""
    limit = [] if options.limit is None else ["--limit", str(options.limit)]
    return shlex.join(["python", "-m", "benchmarks.heads", "--model", options.model, "--data", *options.data, *limit])


def every_one_without(translator: Translator, pairs: Sequence[Pair]) -> tuple[dict[str, Without], float]:
    """(what the model does without each head, by the head's name, and under "" with all heads; seconds)"""
    search, began = translator.search(beam=1), time.monotonic()
    found = {"": without(translator, pairs, search, ())}
    for head in every_head(translator.single):
        found[str(head)] = without(translator, pairs, search, (head,))
        print(f"without {head}", file=sys.stderr, flush=True)
    return found, time.monotonic() - began


def kept(path: Path | None) -> tuple[dict[str, Without], float] | None:
    if path is None or not path.exists():
        return None
    found = json.loads(path.read_text())
    return {name: Without(**one) for name, one in found["without"].items()}, found["seconds"]


def reported(translator: Translator, pairs: Sequence[Pair], of: int, done: dict[str, Without]) -> HeadReport:
    sources, targets = translator.encode_pairs(pairs)
    reading = translator.reading()
    looks = look_over(translator.single, sources, targets, reading, translator.longest_aligned)
    gone = {head: done[str(head)] for head in every_head(translator.single)}
    return assemble(translator, pairs, of, translator.search(beam=1), looks, done[""], gone, reading)


def held_out(translator: Translator, pairs: Sequence[Pair], done: dict[str, Without], half: int) -> dict[str, Any]:
    """The heads as one half of the pairs ranks them, with what the other half loses without them."""
    first, second = (
        reported(translator, pairs[n::2], len(pairs), {name: every_second(one, n) for name, one in done.items()})
        for n in (half, 1 - half)
    )
    lost = {str(head): head for head in second.heads}
    ranked = [str(head) for head in first.ranked()]
    told = lambda names: [{"head": name, "bleu_lost": lost[name].lost.bleu} for name in names]  # noqa: E731
    return {
        "ranked_on": ("even pairs", "odd pairs")[half],
        "bleu": second.bleu,
        "first": told(ranked[:SHOWN]),
        "last": told(ranked[-SHOWN:]),
        "mean_bleu_lost_of_first_half": mean([lost[name].lost.bleu for name in ranked[: len(ranked) // 2]]),
        "mean_bleu_lost_of_last_half": mean([lost[name].lost.bleu for name in ranked[len(ranked) // 2 :]]),
    }


def every_second(one: Without, start: int) -> Without:
    return Without(one.log_probabilities[start::2], one.pieces[start::2], one.outputs[start::2])


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def rounded(value: Any) -> Any:
    """The value, with numbers rounded to the digits that mean something."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return round(value, 6) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
