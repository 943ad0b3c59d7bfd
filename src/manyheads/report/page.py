"""report.html: how a run went, on one page that needs only a browser: no network, no script, no other file.

If the inspector's page is beside it, it links to that.
"""

from itertools import groupby
from typing import Any

from manyheads.errors import ManyheadsError
from manyheads.modelfolder import RECIPE, load_model, task_of_folder
from manyheads.report.charts import draw_chart
from manyheads.report.heatmap import MOST_HEADS, MOST_LAYERS, MOST_PIECES, Attention, draw_maps, draw_matrix, look
from manyheads.report.history import NO_METRIC, NO_SCORE, History, as_number, name_of, read_history
from manyheads.report.markup import STYLE, note, shown
from manyheads.storage import read_file
from manyheads.tasks.task import Sample
from manyheads.training.run import Run

__all__ = ["write_report"]

MOST_SAMPLES = 20
MOST_CHANGES = 24
LONGEST_RECIPE = 100_000

PERCENT = ("wer", "per")
REASONS = {"finished": "all steps done", "patience": "the score no longer improved"}

HOW_TO_READ = (
    "Cross-attention in the first sample: each row is a piece the model writes, each column a piece it reads. Each row "
    "adds up to 1. Shades grow with the square root of a weight, so that small weights can be seen. "
    "Layers and heads count from 0: cross 0.1 is head 1 of layer 0. "
)

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def write_report(run: Run) -> None:
    """Write the page of a run, without whatever the run's folder no longer has."""
    history = read_history(run.log)
    name, recipe = run.root.resolve().name, recipe_text(run)
    parts = [
        header(name, description(run), "inspect.html" if run.inspector.is_file() else ""),
        figures(history),
        tuned_table(history),
        curves(history),
        samples_table(history.samples()),
        changes_table(history),
        attention_section(run, history.samples()),
        f"<details><summary>Recipe</summary><pre>{lines_of(recipe)}</pre></details>" if recipe else "",
    ]
    page = PAGE.format(title=shown(name), style=STYLE, body="\n".join(part for part in parts if part))
    run.report.write_bytes(page.encode("utf-8", "replace"))


def recipe_text(run: Run) -> str:
    try:
        return read_file(run.root, RECIPE).decode("utf-8", "replace")
    except ManyheadsError:
        return ""


def description(run: Run) -> str:
    try:
        return run.recipe().description
    except (ManyheadsError, UnicodeDecodeError):
        return ""


def lines_of(text: str) -> str:
    return "\n".join(shown(line) for line in text[:LONGEST_RECIPE].split("\n"))


def header(name: str, about: str, inspector: str) -> str:
    link = f'<p class="more"><a href="{inspector}">Every head, and how it formed</a></p>' if inspector else ""
    return f'<header><h1>{shown(name)}</h1><p class="lead" dir="auto">{shown(about)}</p>{link}</header>'


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def figures(history: History) -> str:
    """The figures of a run: scores, size, duration, machine."""
    metrics = sorted(history.metrics().items(), key=lambda metric: metric[0] in NO_SCORE)  # loss and perplexity last
    cells = [*((name_of(key), score(key, value), "") for key, value in metrics), *sizes(history)]
    return f"<dl>{''.join(figure(*cell) for cell in cells)}</dl>{said_of(history)}" if cells else ""


def score(key: str, value: float) -> str:
    return f"{value:.{3 if key == 'loss' else 2}f}" + " %" * (key in PERCENT) if abs(value) < 1e6 else f"{value:.3g}"


def sizes(history: History) -> list[tuple[str, str, str]]:
    start, last = history.last("start"), history.last("step")
    parameters, batches = as_number(start.get("parameters")), as_number(start.get("batches_per_epoch"))
    step, seconds = as_number((history.result() or last).get("step")), as_number(last.get("seconds"))
    epochs = f" <small>{step / batches:,.1f} epochs</small>" if step and batches else ""
    found = [
        ("parameters", "" if parameters is None else f"{parameters:,.0f}", ""),
        ("steps", "" if step is None else f"{step:,.0f}{epochs}", ""),
        ("training time", "" if seconds is None else duration(seconds), ""),
        ("machine", shown(start.get("machine", "")), "words"),
    ]
    return [cell for cell in found if cell[1]]


def duration(seconds: float) -> str:
    """12 s, 4 min 07 s, 3 h 20 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3_600:,} h {whole % 3_600 // 60:02} min"


def figure(name: str, value: str, kind: str) -> str:
    """A name, and a value that is already HTML."""
    return f'<div><dt>{shown(name)}</dt><dd class="{kind}">{value}</dd></div>'


def said_of(history: History) -> str:
    """A note on which model the scores are of."""
    final, best = history.last("final"), history.best_step()
    ended = (
        f"Training ended: {REASONS.get(str(final.get('reason')), 'stopped early')}. "
        if final
        else "Training has not ended. "
    )
    scores = (
        "Scores are on the development set, for the model as it will be used"
        if final
        else "These are the latest scores"
    )
    return note(f"{ended}{scores}. " + (f"The best validation was at step {best:,}." if best is not None else ""))


# ── curves ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def curves(history: History) -> str:
    """The four charts that show whether a run went well."""
    best = history.best_step()
    charts = [
        draw_chart("Loss", history.losses(), best=best),
        draw_chart("Dev scores", history.scores(), from_zero=True, best=best),
        draw_chart("Learning rate", [history.curve("rate", "step", "rate")], from_zero=True),
        draw_chart("Speed", [history.curve("tokens/s", "step", "tokens_per_second")], from_zero=True),
    ]
    if not any(charts):
        return note("The log of this run has nothing to draw.")
    about = note(
        "The training loss includes dropout and, if used, label smoothing. A dotted line marks the best validation. Hover over a chart to read values."
        if best is not None
        else ""
    )
    return f'<h2>Training</h2>{about}<div class="charts">{"".join(charts)}</div>'


# ── samples ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def samples_table(samples: list[Sample]) -> str:
    if not samples:
        return ""
    rows = "".join(sample_row(sample) for sample in samples[:MOST_SAMPLES])
    about = note("The first pairs of the development set. ✓: the output equals the target.")
    return f"<h2>Samples</h2>{about}{table(('', 'source', 'target', 'output'), rows)}"


def table(columns: tuple[str, ...], rows: str) -> str:
    head = "".join(f"<th>{name}</th>" for name in columns)
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def sample_row(sample: Sample) -> str:
    right = "✓" if sample.output == sample.target else ""
    texts = "".join(map(text_cell, (sample.source, sample.target, sample.output)))
    return f'<tr><td class="mark">{right}</td>{texts}</tr>'


def text_cell(text: str) -> str:
    return f'<td dir="auto">{shown(text)}</td>' if text.strip() else '<td class="empty">empty</td>'


def tuned_table(history: History) -> str:
    """The scores of a fine-tuned model before and after, on the new data and on the old."""
    before, after = ({event.get("on"): event for event in history.of(kind)} for kind in ("before", "after"))
    rows = [
        f"<tr><td>{what} data</td><td>{shown(name_of(key))}</td>"
        f'<td class="step">{score(key, then)}</td><td class="step">{score(key, now)}</td></tr>'
        for on, what in (("dev", "new"), ("old", "old"))
        if on in before and on in after
        for key in before[on]
        if key not in (*NO_METRIC, *NO_SCORE)
        and (then := as_number(before[on][key])) is not None
        and (now := as_number(after[on].get(key))) is not None
    ]
    return f"<h2>Before and after</h2>{table(('', '', 'before', 'after'), ''.join(rows))}" if rows else ""


def changes_table(history: History) -> str:
    """The output for the first sample over the validations: one row for as long as it stayed the same."""
    stretches = [list(group) for _, group in groupby(history.outputs(), key=lambda found: found[1])]
    rows = [
        f'<tr><td class="step">{steps_said(group[0][0], group[-1][0])}</td>{text_cell(group[0][1])}</tr>'
        for group in evenly(stretches, MOST_CHANGES)
    ]
    if not rows:
        return ""
    return f"<h3>How the first output changed</h3>{table(('step', 'output'), ''.join(rows))}"


def steps_said(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,} – {last:,}"


def evenly(items: list[Any], most: int) -> list[Any]:
    """At most `most` of the items, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[round(n * (len(items) - 1) / (most - 1))] for n in range(most)]


# ── attention ───────────────────────────────────────────────────────────────────────────────────────────────────────


def attention_section(run: Run, samples: list[Sample]) -> str:
    """Where the run's model looks when it writes its output for the first sample."""
    if not samples or task_of_folder(run.root) != "translate":  # other tasks have no second text to look from
        return ""
    try:
        model, vocabulary, _ = load_model(run.root)
        attention = look(model, vocabulary, samples[0].source, samples[0].output)
    except ManyheadsError as error:
        return f"<h2>Attention</h2>{note(f'The attention could not be computed: {error.message}')}"
    mean = attention.layers[-1].mean(0)
    return f"""<h2>Attention</h2>
{note(HOW_TO_READ + cut_said(attention))}
<h3>Last layer, mean of heads</h3>
<section id="mean">{draw_matrix(attention, mean)}</section>
<h3>Every layer, every head</h3>
<section id="heads">{draw_maps(attention)}</section>"""


def cut_said(attention: Attention) -> str:
    """A note on what is not drawn."""
    pieces = f"Only the first {MOST_PIECES} pieces are shown. " if attention.cut else ""
    many = len(attention.layers) > MOST_LAYERS or len(attention.layers[0]) > MOST_HEADS
    return pieces + (
        f"Only the last {MOST_LAYERS} layers and the first {MOST_HEADS} heads of each are shown." if many else ""
    )
