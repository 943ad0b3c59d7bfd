"""A language model of ours against a Llama of the same size in a plain Hugging Face loop: quality and speed in one run.

    python -m benchmarks.language_model --json benchmarks/results/language_model.json
    python -m benchmarks.language_model --systems ours bare peer compiled seconds
    python -m benchmarks.language_model --device cpu --recipe lm/tiny --steps 40 --validations 2

The last command runs all code, with figures that mean little. The texts are the English side of the bundled Tatoeba
pairs, each text once; texts of the development set that are also in the training set are left out.

    ours       `manyheads train`: dropout and a moving average of the weights, as the recipe has them
    bare       the same without these two, which a Llama and a plain loop do not have either
    peer       LlamaForCausalLM in a plain loop (llama.py)
    compiled   the peer through torch.compile
    seconds    the peer, for as many steps as it makes in the seconds that ours took, compiling included, and with a
               schedule for these steps

All have the same pieces, shape and parameters, the same tokens a step but for padding, the same number of steps, AdamW
with the same settings, schedule and clipping, and on a GPU bf16 autocast. Systems run one after the other. The best of
`--validations` validations of each counts. They are computed in float32 by the same code, from the log-probabilities of
all tokens, including the end of each text. That code is checked against Hugging Face's own loss. Speed is that of the
steps after the first 20, in target tokens a second, padding not counted; seconds are those of all steps without
validation.
"""

import argparse
import gzip
import json
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.llama import SETTLED, Llama, Run, fit_llama, pad_for_llama, rows_of
from benchmarks.setting import setting, write_json
from benchmarks.time_to_quality import manyheads
from manyheads.evaluation.rates import mean_loss, perplexity
from manyheads.generation.scoring import bits_per_byte
from manyheads.generation.writer import Writer
from manyheads.interop.llama import misfits
from manyheads.machine import Machine, choose_machine
from manyheads.modelfolder import bundled, load_language_model
from manyheads.recipe import GenerateConfig, load_recipe
from manyheads.text.tokenizer import Tokenizer
from manyheads.training.log import read_log

OURS, LLAMA = "manyheads", "Hugging Face Llama"
NAMES = {
    "ours": OURS,
    "bare": f"{OURS}, no dropout, no average",
    "peer": LLAMA,
    "compiled": f"{LLAMA}, compiled",
    "seconds": f"{LLAMA}, in our seconds",
}
CHANGES = {"ours": (), "bare": ("model.dropout=0", "train.ema=0")}
"""Changes to the recipe."""
CHECKED = 32
"""Texts on which the scores are checked against Hugging Face's own loss."""
NEAR = 1e-4
"""The most by which they may differ, relative to the loss."""

Row = dict[str, Any]


# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def english(part: str) -> list[str]:
    """The English texts of a bundled file, each once, in the order of the file."""
    rows = gzip.decompress(bundled(f"tatoeba/{part}.tsv.gz").read_bytes()).decode().splitlines()
    return list(dict.fromkeys(row.split("\t")[1] for row in rows))


def write_texts(folder: Path) -> tuple[list[str], list[str]]:
    """(texts to train on, texts to validate on), which are also written to train.txt and dev.txt."""
    train = english("train")
    seen = set(train)
    dev = [text for text in english("dev") if text not in seen]
    folder.mkdir(parents=True, exist_ok=True)
    for name, texts in (("train", train), ("dev", dev)):
        (folder / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return train, dev


# ── how good ────────────────────────────────────────────────────────────────────────────────────────────────────────


def judge(writer: Writer, texts: Sequence[str]) -> dict[str, float]:
    scores = list(writer.score(texts))
    return {"perplexity": perplexity(mean_loss(scores)), "bits_per_byte": bits_per_byte(scores)}


def writer_of(model: Llama, tokenizer: Tokenizer) -> Writer:
    """What scores our models, for a Llama: it needs only states and logits."""
    return Writer(model, tokenizer, GenerateConfig())  # type: ignore[arg-type]


@torch.no_grad()
def check_scores(model: Llama, tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """The largest difference, relative to the loss that Hugging Face computes for each text by itself."""
    writer, device = writer_of(model, tokenizer), model.words.weight.device
    worst = 0.0
    for text, score in zip(texts, writer.score(texts), strict=True):
        alone = (tensor.to(device) for tensor in pad_for_llama(rows_of(tokenizer.encode([text]), len(text) + 1)))
        theirs = model(*alone).item()
        worst = max(worst, abs(-score.log_probability / score.tokens - theirs) / theirs)
    return worst


# ── one row each ────────────────────────────────────────────────────────────────────────────────────────────────────


def train_ours(system: str, changes: Sequence[str], dev: Sequence[str], options: argparse.Namespace) -> Row:
    out = options.runs / system
    shutil.rmtree(out, ignore_errors=True)
    settings = [word for change in changes for word in ("--set", change)]
    files = ["--train", str(options.runs / "train.txt"), "--dev", str(options.runs / "dev.txt")]
    words = ["train", options.recipe, *files, "--out", str(out), *settings, "--device", options.device]
    manyheads(words)
    summary = json.loads((out / "summary.json").read_text())
    writer = Writer.load(out, options.device, "fp32")
    # Speed is measured after the first steps, as for the peer; each reading says what the run has taken so far.
    readings = [one for one in read_log(out / "log.jsonl") if one["event"] == "step" and one["step"] >= SETTLED]
    first, last = readings[0], readings[-1]
    return {
        "system": NAMES[system], "parameters": parameters(writer.model), "steps": summary["step"],
        "best_step": summary["best_step"], **judge(writer, dev),
        "target_tokens_per_s": round((last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"])),
        "tokens_per_step": round(last["tokens"] / last["step"]), "seconds": summary["seconds"],
        "compile_seconds": summary["compile_seconds"], "command": shlex.join(["manyheads", *words]),
    }  # fmt: skip


def train_peer(
    system: str, train: Sequence[str], dev: Sequence[str], steps: int, machine: Machine, options: argparse.Namespace
) -> Row:
    _, vocabulary, recipe = load_language_model(options.runs / "ours")
    tokenizer = vocabulary.source
    torch.manual_seed(recipe.train.seed)
    model = Llama(recipe.language_model, tokenizer).to(machine.device)
    config = replace(recipe.train, rate=options.peer_rate or recipe.train.rate)
    texts, every = rows_of(tokenizer.encode(train), recipe.data.max_length), every_of(steps, options)
    compiled = system == "compiled"

    def validate() -> dict[str, float]:
        return judge(writer_of(model, tokenizer), dev)

    run = fit_llama(model, texts, config, steps, machine, validate, every, compiled=compiled)
    difference = check_scores(model.eval(), tokenizer, dev[:CHECKED])
    if difference > NEAR:
        sys.exit(f"scores differ from Hugging Face's own loss by {difference:.1e}: there is nothing to compare")
    return peer_row(system, model, run, compiled) | {"rate": config.rate, "scores_differ_by": difference}


def peer_row(system: str, model: Llama, run: Run, compiled: bool) -> Row:
    best_step, best = min(run.scores, key=lambda one: one[1]["perplexity"])
    start = run.start_seconds if compiled else 0.0
    return {
        "system": NAMES[system], "parameters": parameters(model), "steps": run.steps, "best_step": best_step, **best,
        "target_tokens_per_s": round(run.speed), "tokens_per_step": round(run.tokens / run.steps),
        "seconds": round(run.seconds - start, 1), "compile_seconds": round(start, 1),
    }  # fmt: skip


def parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def every_of(steps: int, options: argparse.Namespace) -> int:
    return max(1, steps // options.validations)


def measure(options: argparse.Namespace) -> Iterator[Row]:
    """Measure system by system. Ours comes first, because the others use its pieces."""
    train, dev = write_texts(options.runs)
    machine = choose_machine(options.device)
    changes = [
        f"train.steps={options.steps}", f"train.validate_every={every_of(options.steps, options)}", "train.patience=0",
        f"train.fast={'on' if machine.device.type == 'cuda' else 'auto'}", *options.set,
    ]  # fmt: skip
    found: dict[str, Row] = {}
    for system in (name for name in NAMES if name in {"ours", *options.systems}):
        if system in CHANGES:
            found[system] = train_ours(system, [*changes, *CHANGES[system]], dev, options)
        else:
            steps = steps_in_our_seconds(found) if system == "seconds" else options.steps
            found[system] = train_peer(system, train, dev, steps, machine, options)
        yield found[system]


def steps_in_our_seconds(found: dict[str, Row]) -> int:
    ours, peer = found["ours"], found["peer"]
    seconds = ours["seconds"] + ours["compile_seconds"]
    return max(2 * SETTLED, round(seconds * peer["target_tokens_per_s"] / peer["tokens_per_step"]))


# ── the whole ───────────────────────────────────────────────────────────────────────────────────────────────────────


def table(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        f"{'system':36}{'parameters':>12}{'steps':>7}{'perplexity':>12}{'bits/byte':>11}{'k tok/s':>9}{'seconds':>9}{'compile s':>11}"
        f"{'speed':>8}"
    )
    slowest = next((row["target_tokens_per_s"] for row in rows if row["system"] == LLAMA), None)
    for row in rows:
        ratio = f"{row['target_tokens_per_s'] / slowest:7.2f}×" if slowest else f"{'–':>8}"
        yield (
            f"{row['system']:36}{row['parameters']:12,}{row['steps']:7,}{row['perplexity']:12.2f}{row['bits_per_byte']:11.4f}"
            f"{row['target_tokens_per_s'] / 1000:9.1f}{row['seconds']:9.1f}{row['compile_seconds']:11.1f}{ratio}"
        )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", choices=list(NAMES), default=["ours", "bare", "peer"])
    parser.add_argument("--recipe", default="lm/small")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of the recipe")
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--validations", type=int, default=10)
    parser.add_argument("--peer-rate", type=float, help="the highest learning rate of the peer, if not ours")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=Path, default=Path("runs/language_model"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.steps < 2 * SETTLED:
        parser.error(
            f"speed is measured after step {SETTLED}: --steps must be at least {2 * SETTLED}, got {options.steps}"
        )
    if "seconds" in options.systems and "peer" not in options.systems:
        parser.error(
            "how many steps the peer takes in our seconds is known from its speed: --systems seconds needs peer"
        )
    if faults := misfits(load_recipe(options.recipe).language_model):
        parser.error(f"no Llama is like {options.recipe}: it has {'; '.join(faults)}")
    return options


def main() -> None:
    options = parse()
    rows: list[Row] = []
    for row in measure(options):
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
        if options.json:  # keep what is measured, even if the rest fails
            head = setting(choose_machine(options.device).device)
            write_json(options.json, {**head, "recipe": options.recipe, "rows": rows})
    for line in table(rows):
        print(line)


if __name__ == "__main__":
    main()
