"""A corpus with planted faults of every kind, and how many of each."""

import gzip
import json
from itertools import islice

from manyheads.modelfolder import bundled


def clean_pairs(count):
    """Pairs of Tatoeba, each source and each target once, without numbers, a few words long."""
    sources, targets, pairs = set(), set(), []
    for line in gzip.decompress(bundled("tatoeba/train.tsv.gz").read_bytes()).decode().split("\n")[:-1:7]:
        source, target = line.split("\t")
        new = source not in sources and target not in targets
        if new and 30 < len(source) < 60 and 30 < len(target) < 60 and not any(map(str.isdigit, line)):
            pairs.append((source, target))
            sources.add(source)
            targets.add(target)
    return pairs[:count]


def plant(clean):
    """(TSV bytes, JSONL text, pairs to check against, {finding: count}, the pairs that are as they were)."""
    rest = iter(clean)

    def take(count):
        return list(islice(rest, count))

    overlap, seen = take(3), take(2)
    against = [*overlap, *((source, f"{target} Indeed.") for source, target in seen)]
    again, with_umlauts = take(12), []
    while len(with_umlauts) < 3:
        with_umlauts += [pair for pair in take(1) if set("äöü") & set(pair[0])]
    long, wide = take(60), take(18)
    faults = {
        "duplicate": [*again[:5], again[0]],
        "targets": [(source, f"{target} Indeed.") for source, target in again[5:8]],
        "sources": [(f"Also, {source}", target) for source, target in again[8:12]],
        "same": [(source, source) for source, _ in take(4)],
        "length": [(" ".join(source for source, _ in long), " ".join(target for _, target in long))],
        "ratio": [(source, " ".join(target for _, target in wide[n::3])) for n, (source, _) in enumerate(take(3))],
        "numbers": [(f"{source} 1.700", f"{target} 1,800") for source, target in take(3)],
        "repetition": [(source, "again and again and " * 3 + "again and") for source, _ in take(1)]
        + [("h" + "ah" * 14, target) for _, target in take(1)],
        "markup": [("<b></b> &nbsp;", "<i></i> &amp;"), ("https://a.example/b", "…")],
        "swapped": [(target, source) for source, target in take(20)],
        "language": [(source, f"{one[0]} {two[0]}") for (source, _), one, two in zip(take(6), take(6), take(6), strict=True)]
        + [(f"{one[1]} {two[1]}", target) for (_, target), one, two in zip(take(5), take(5), take(5), strict=True)],
        "script": [(source, "Собака спит на диване, а кошка на полу.") for source, _ in take(1)]
        + [(source, target.replace("a", "а").replace("e", "е")) for source, target in take(3)],
        "mojibake": [(source.encode().decode("cp1252", errors="replace"), target) for source, target in with_umlauts],
        "quoted": [(f'"Er sagte: ""{source}"""', f'"He said: ""{target}"""') for source, target in take(2)],
        "control": [(f"{source}\x07", target) for source, target in take(2)],
        "invisible": [(f"{odd}{source}", target) for odd, (source, target) in zip("\u200b\u00ad\ufeff\ufffd\u202e", take(5), strict=True)],
        "space": [(f"{source} ", target) for source, target in take(1)] + [(s.replace(" ", "  ", 1), t) for s, t in take(1)],
        "overlap": overlap,
        "seen": seen,
    }  # fmt: skip
    good = [*again, *long, *wide, *rest]
    planted = [pair for pairs in faults.values() for pair in pairs]
    rows = [f"{source}\t{target}".encode() for source, target in (*good, *planted)]
    rows += [
        b"caf\xe9\tcoffee",
        b"\xff\t\xfe",
        b"one column",
        b"three\tcolumns\there",
        b"\t",
        b"Hallo.\t ",
        b"",
        b"x" * 2_100_000,
    ]
    counts = {name: len(pairs) for name, pairs in faults.items()}
    counts |= {"not_utf8": 2, "no_pair": 2, "blank": 3, "too_long": 1, "newline": 1, "seen": 5}
    line = json.dumps(
        {"source": "Das ist eine Zeile\nund eine andere.", "target": "This is one line\nand another one."}
    )
    return b"\n".join(rows), line, against, counts, good
