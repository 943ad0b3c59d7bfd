"""What fine-tuning gains and what it costs: the bundled de-en on captions, `python -m benchmarks.tuning --data FOLDER`.

FOLDER holds Multi30k (train.de.gz, train.en.gz, val.…, test_2016_flickr.…), which is not bundled. The model is trained
on the first 2,000 pairs of its training set and chosen on val; the test sets of both domains are scored before and
after, with beam 5.
"""

import argparse
import gzip
import json
import shutil
from itertools import islice
from pathlib import Path

from manyheads import Translator, evaluate, train
from manyheads.modelfolder import bundled

WAYS = {
    "as it is": ({}, []),
    "twice the rate": ({"train.rate": 4e-4}, []),
    "half the rate": ({"train.rate": 1e-4}, []),
    "encoder and embeddings frozen": ({"train.freeze": "encoder,embeddings"}, []),
    "with some of the old pairs": ({}, [f"{bundled('tatoeba/train.tsv.gz')}:0.02"]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=2_000)
    parser.add_argument("--runs", type=Path, default=Path("runs/tuning"))
    parser.add_argument("--ways", nargs="*", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shutil.rmtree(options.runs, ignore_errors=True)
    options.runs.mkdir(parents=True)
    few = [
        shorten(options.data / f"train.{side}.gz", options.runs / f"train.{side}", options.pairs)
        for side in ("de", "en")
    ]
    captions = [f"{options.data}/test_2016_flickr.{side}.gz" for side in ("de", "en")]
    tests = {"captions": captions, "tatoeba": [str(bundled("tatoeba/test.tsv.gz"))]}
    rows = [{"way": "before", **scores("de-en", tests, options.device)}]
    for number, way in enumerate(options.ways):
        changes, more = WAYS[way]
        folder = options.runs / str(number)
        train(
            train=[*few, *more], dev=[f"{options.data}/val.{side}.gz" for side in ("de", "en")], base="de-en",
            old_dev=bundled("tatoeba/dev.tsv.gz"), out=folder, changes=changes, device=options.device,
        )  # fmt: skip
        summary = json.loads((folder / "summary.json").read_text())
        rows.append(
            {
                "way": way,
                **scores(folder, tests, options.device),
                "seconds": summary["seconds"],
                "steps": summary["step"],
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    for row in rows:
        print(
            f"{row['way']:<32} captions {row['captions']:6.2f}   tatoeba {row['tatoeba']:6.2f}   {row.get('seconds', 0):6.1f} s"
        )
    if options.json:
        result = {
            "command": "python -m benchmarks.tuning --data multi30k",
            "pairs": options.pairs,
            "metric": "BLEU, cased 13a, beam 5",
            "rows": rows,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")


def shorten(source: Path, place: Path, lines: int) -> str:
    with gzip.open(source, "rb") as file:
        place.write_bytes(b"".join(islice(file, lines)))
    return str(place)


def scores(model: str | Path, tests: dict[str, list[str]], device: str) -> dict[str, float]:
    translator = Translator.load(model, device)
    return {name: round(evaluate(translator, data, beam=5).bleu, 2) for name, data in tests.items()}


if __name__ == "__main__":
    main()
