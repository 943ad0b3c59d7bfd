"""`manyheads demo`: train a pronouncer from scratch on this machine, then translate with a bundled model."""

import gzip
import os
import sys
import webbrowser
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from manyheads.decoding.translator import Translator
from manyheads.evaluation.api import evaluate
from manyheads.modelfolder import bundled
from manyheads.recipe import load_recipe
from manyheads.training.api import train

__all__ = ["run_demo"]

WORDS = (
    "ATTENTION", "BYTES", "CHATBOT", "DECODER", "EMBEDDING", "GRADIENT", "HUGGABLE", "LAPTOP", "PIXELATED", "PODCAST",
    "SELFIE", "SOFTMAX", "TOKENIZER", "TRANSFORMER", "UNFRIEND", "VASWANI",
)  # fmt: skip
SENTENCES = (
    "Guten Morgen!",
    "Ein Hund schläft auf dem Sofa.",
    "Ich habe gestern ein interessantes Buch gelesen.",
    "Wo ist der nächste Bahnhof?",
    "Wenn es morgen regnet, bleiben wir zu Hause.",
    "Ich hätte gern eine Tasse Kaffee, bitte.",
)


def run_demo(out: Path, console: Console, recipe: str = "pronounce-tiny", resume: bool = False) -> None:
    """Train, score and use a pronouncer in `out`, then translate."""
    heading(
        console,
        "1 · A pronouncer, from scratch",
        "English words to phones, trained on the CMU dictionary: two to three minutes on two cores.",
    )
    train_files, dev, test = ([str(bundled(f"cmudict/{part}.tsv.gz"))] for part in ("train", "dev", "test"))
    train(load_recipe(recipe), train=train_files, dev=dev, out=out, resume=resume)
    translator = Translator.load(out)
    heading(
        console,
        "2 · How good is it?",
        "Tested on dictionary words it has never seen; any listed pronunciation counts as right.",
    )
    scores = evaluate(translator, test, beam=1, batch=256)
    console.print(f"word error rate {scores.extra['wer']:.1f} %   phone error rate {scores.extra['per']:.1f} %")
    console.print(f"[dim]{scores.lines:,} pronunciations in {scores.seconds:.0f} s[/dim]")
    pronounce(console, translator, known_words(Path(train_files[0])))
    console.print(f"\nCurves and samples: [bold]{escape(str(out / 'report.html'))}[/bold]")
    page = out / "inspect.html"
    if page.is_file():
        console.print(f"How its heads formed: [bold]{escape(str(page))}[/bold]")
    heading(console, "3 · A translator, already trained", "German to English; `de-en` comes with the package.")
    translate(console, Translator.load("de-en"))
    console.print("\n[dim]Your own pairs: manyheads train small --train pairs.tsv --out runs/mine[/dim]")
    if page.is_file() and somebody_looks(console):
        webbrowser.open(page.absolute().as_uri())


def somebody_looks(console: Console) -> bool:
    """Whether a person is at a terminal and there is a screen to open a page on (not a browser inside the terminal)."""
    screen = sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return console.is_terminal and sys.stdin.isatty() and screen and not os.environ.get("CI")


def heading(console: Console, title: str, explanation: str) -> None:
    console.print(f"\n[bold]{title}[/bold]\n{explanation}\n")


def known_words(path: Path) -> set[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return {line.split("\t")[0] for line in lines}


def pronounce(console: Console, translator: Translator, known: set[str]) -> None:
    words = [word for word in WORDS if word not in known][:8]
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("a word it has never seen")
    table.add_column("its pronunciation")
    for word, phones in zip(words, translator(words), strict=True):
        table.add_row(word.lower(), phones)
    console.print()
    console.print(table)


def translate(console: Console, translator: Translator) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for sentence, translation in zip(SENTENCES, translator(list(SENTENCES)), strict=True):
        table.add_row(sentence, "→", escape(translation))
    console.print(table)
