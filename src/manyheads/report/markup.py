"""Text as HTML. Whatever comes from data goes through `shown`: it cannot run, hide, or reverse the line."""

import html
import unicodedata

__all__ = ["STYLE", "note", "shown", "shown_number", "visible"]

JOINERS = "\u200c\u200d"
"""Format characters without which Persian, Hindi and many emoji would be misspelt."""
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories without ink: controls, bidi overrides, surrogates, line and paragraph separators."""


def visible(text: str) -> str:
    """The text with its invisible characters written as ‹U+202E›."""
    return "".join(
        f"‹U+{ord(letter):04X}›" if unicodedata.category(letter) in HIDDEN and letter not in JOINERS else letter
        for letter in text
    )


def shown(text: object, most: int = 1_000) -> str:
    """The text as HTML, for content and for quoted attributes alike; cut to `most` characters."""
    whole = str(text)
    return html.escape(visible(whole if len(whole) <= most else f"{whole[: most - 1]}…"))


def shown_number(value: float) -> str:
    """The number as short as a label needs it: 12.5k, 0.042, 4.5e-4."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size <= abs(value) < 1e12:
            return f"{value / size:.4g}{letter}"
    plain = f"{value:.4g}" if value == 0 or abs(value) >= 1e-3 else f"{value:.2e}"
    digits, e, power = plain.partition("e")
    if not e:
        return plain
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}e{int(power)}"


def note(text: str) -> str:
    """A paragraph with a remark of the report's own."""
    return f'<p class="note">{shown(text)}</p>'


STYLE = """
:root { --paper: #fdfcfa; --card: #fff; --ink: #23211e; --soft: #6f6a62; --line: #e4dfd6; --grid: #efebe4;
  --c0: #1f6f8b; --c1: #c8553d; --c2: #6a8d3a; --c3: #8a5aa8; --heat: #1f5f8b; --on-heat: #fff; --good: #4f7d2c;
  --serif: "Iowan Old Style", "Palatino Linotype", Palatino, "Book Antiqua", "URW Palladio L", "DejaVu Serif", Georgia, serif;
  --sans: system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "DejaVu Sans", sans-serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
@media (prefers-color-scheme: dark) { :root { --paper: #171615; --card: #1f1e1c; --ink: #ebe6de; --soft: #a09a90;
  --line: #37342f; --grid: #2a2825; --c0: #6cbcd6; --c1: #f08d75; --c2: #a9cc77; --c3: #c79be3; --heat: #7cc4ec;
  --on-heat: #10181d; --good: #a9cc77; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 3.5rem 1.5rem 5rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 var(--sans); font-variant-numeric: tabular-nums; }
h1, h2, .lead { font-family: var(--serif); font-weight: 500; }
h1 { margin: 0; font-size: 2.6rem; line-height: 1.15; letter-spacing: -.015em; overflow-wrap: anywhere; }
h2 { margin: 3.5rem 0 1rem; padding-top: .9rem; border-top: 1px solid var(--line); font-size: 1.45rem; }
h3 { margin: 2rem 0 .6rem; font-size: .95rem; font-weight: 600; }
.lead { margin: .5rem 0 0; font-size: 1.2rem; color: var(--soft); }
.more { margin: .9rem 0 0; } a { color: var(--c0); text-underline-offset: .2em; }
.note { max-width: 44rem; margin: .6rem 0 1rem; font-size: .9rem; color: var(--soft); }
dl { display: flex; flex-wrap: wrap; gap: 1px; margin: 2.2rem 0 0; background: var(--line);
  border: 1px solid var(--line); border-radius: .6rem; overflow: hidden; }
dl div { flex: 1 1 min(14rem, 45%); padding: .9rem 1.1rem 1rem; background: var(--card); }
dt { font-size: .78rem; color: var(--soft); }
dd { margin: .1rem 0 0; font: 500 1.6rem/1.2 var(--serif); font-variant-numeric: lining-nums; overflow-wrap: anywhere; }
dd small { margin-left: .3em; font: .8rem/1.3 var(--sans); color: var(--soft); white-space: nowrap; }
dd.words { font: 500 1rem/1.4 var(--sans); padding-top: .25rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: 1.25rem; }
figure { margin: 0; padding: 1rem 1.1rem .7rem; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; }
figcaption { display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: baseline; margin-bottom: .5rem; font-size: .85rem; }
figcaption b { margin-right: auto; font-size: .95rem; font-weight: 600; }
figcaption i { font-style: normal; color: var(--soft); }
figcaption i::before { content: ""; display: inline-block; width: .9em; height: 3px; margin: 0 .4em .22em 0; border-radius: 2px;
  background: currentColor; vertical-align: middle; }
figcaption .c0::before { color: var(--c0); } figcaption .c1::before { color: var(--c1); }
figcaption .c2::before { color: var(--c2); } figcaption .c3::before { color: var(--c3); }
svg { display: block; height: auto; } .charts svg { width: 100%; }
svg text { font: 12px var(--sans); fill: var(--soft); font-variant-numeric: tabular-nums; }
.grid { stroke: var(--grid); } .axis { stroke: var(--line); } .best { stroke: var(--soft); stroke-dasharray: 2 4; }
.curve { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke-linecap: round; }
.curve.c0 { stroke: var(--c0); } .curve.c1 { stroke: var(--c1); } .curve.c2 { stroke: var(--c2); } .curve.c3 { stroke: var(--c3); }
.dot { stroke: var(--card); stroke-width: 1.5; }
.dot.c0 { fill: var(--c0); } .dot.c1 { fill: var(--c1); } .dot.c2 { fill: var(--c2); } .dot.c3 { fill: var(--c3); }
.band { fill: var(--ink); fill-opacity: 0; } .band:hover { fill-opacity: .07; }
.wide { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: .95rem; }
th, td { padding: .55rem 1rem .55rem 0; border-bottom: 1px solid var(--line); text-align: start; vertical-align: top;
  overflow-wrap: anywhere; }
th { font-size: .78rem; font-weight: 400; color: var(--soft); }
td.step { width: 9rem; color: var(--soft); white-space: nowrap; }
.empty { color: var(--soft); font-style: italic; }
td.mark { width: 1.5rem; padding-right: 0; color: var(--good); }
.matrix rect { fill: var(--heat); } .matrix text, .maps text { font-family: var(--mono); }
.matrix .frame { fill: none; stroke: var(--line); }
.matrix text, .matrix .value { fill: var(--ink); } .matrix .value { font-size: 11px; } .matrix .on, .matrix .value.on { fill: var(--on-heat); }
.matrix g:hover rect { stroke: var(--c1); stroke-width: 1.5; }
.maps { display: grid; gap: .5rem; align-items: center; width: max-content; font-size: .78rem; color: var(--soft); }
.maps span { text-align: center; white-space: nowrap; } .maps .layer { text-align: end; padding-right: .4rem; }
.maps svg { background: var(--card); border: 1px solid var(--line); border-radius: 3px; stroke: var(--heat); }
details { margin-top: 3.5rem; padding-top: .9rem; border-top: 1px solid var(--line); }
summary { font: 500 1.45rem var(--serif); cursor: pointer; }
pre { overflow-x: auto; padding: 1rem 1.2rem; background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  font: .85rem/1.5 var(--mono); }
@media print { body { padding: 0; } figure, tr { break-inside: avoid; } }
"""
