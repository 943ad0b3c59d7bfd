"""The report: well formed, self-contained, inert, and true."""

import json
import re
from html.parser import HTMLParser
from math import inf, nan

import pytest
import torch

from manyheads.inspection.switches import Head
from manyheads.modelfolder import load_model
from manyheads.report.charts import Curve, draw_chart, round_ticks, thin
from manyheads.report.heatmap import Attention, draw_maps, draw_matrix, look
from manyheads.report.history import as_number, read_history
from manyheads.report.markup import shown, shown_number
from manyheads.report.page import duration, evenly, write_report
from manyheads.text.tokenizer import BEGIN, END
from manyheads.training.api import train
from manyheads.training.run import Run

HOSTILE = "</script><img src=x onerror=alert(1)> \u202eelif\u202c \u2028 \x07 &amp; \"quoted\" 'single' </title></svg>"
TINY = {
    "model.width": 16, "model.layers": 2, "model.heads": 2, "model.feedforward": 16, "data.vocabulary": 300,
    "data.tokenizer": "characters", "train.steps": 4, "train.validate_every": 2, "train.tokens": 200,
}  # fmt: skip
VOID = {"meta", "br", "img", "input", "link", "hr"}


class Page(HTMLParser):
    """Checks that every tag that opens closes, and remembers tags, attributes and texts."""

    def __init__(self, content):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(self.texts)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    words = ["ab", "cad", "bee", "dab", "ace", "bad", "fed", "cab"]
    pairs = folder / "pairs.tsv"
    pairs.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    train("tiny", train=[str(pairs)], dev=[str(pairs)], out=folder / "run", changes=TINY, device="cpu", quiet=True)
    return Run(folder / "run")


@pytest.fixture
def crafted(tmp_path):
    """A run without a model, with the log that is asked for."""

    def craft(*lines):
        run = Run(tmp_path / "run")
        run.root.mkdir()
        run.log.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
        write_report(run)
        return run.report.read_text(encoding="utf-8")

    return craft


def step(number, **values):
    return {"event": "step", "step": number, **values}


def validation(number, output="x", **values):
    sample = {"source": "s", "target": "t", "output": output}
    return {"event": "validation", "step": number, "score": 1.0, "samples": [sample], **values}


def test_a_run_gets_a_page_that_needs_nothing_else(trained):
    content = trained.report.read_text(encoding="utf-8")
    page = Page(content)
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & set(page.tags)
    assert not {name for name, _ in page.attributes} & {"src", "srcset", "onload", "onerror", "onclick"}
    assert "://" not in content
    assert "url(" not in content
    assert "@import" not in content
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes
    assert len(content) < 200_000


def test_it_leads_to_the_inspector_beside_it_if_there_is_one(trained, crafted):
    page = Page(trained.report.read_text(encoding="utf-8"))
    assert [value for name, value in page.attributes if name == "href"] == ["inspect.html"]
    assert trained.inspector.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "href" not in crafted(step(10, loss=1.0))


def test_it_shows_the_run(trained):
    text = Page(trained.report.read_text(encoding="utf-8")).text
    history = read_history(trained.log)
    assert f"{history.last('final')['chrf']:.2f}" in text
    assert f"{history.last('start')['parameters']:,}" in text
    assert [s.source for s in history.samples()] == ["ab", "cad", "bee", "dab", "ace"]
    for expected in (
        "BLEU",
        "chrF",
        "Learning rate",
        "Speed",
        "cpu",
        "Recipe",
        'tokenizer = "characters"',
        "all steps",
    ):
        assert expected in text


def test_the_weights_shown_are_those_of_the_model(trained):
    sample = read_history(trained.log).samples()[0]
    model, vocabulary, _ = load_model(trained.root)
    source = torch.tensor([vocabulary.source.encode([sample.source])[0] + [END]])
    target = torch.tensor([[BEGIN] + vocabulary.target.encode([sample.output])[0]])
    layers = []
    with torch.no_grad():
        model.decode(target, model.encode(source), None, None, layers)
    content = trained.report.read_text(encoding="utf-8")
    matrix = content[content.index('<section id="mean">') : content.index('<section id="heads">')]
    found = re.findall(r"<title>[^<]* (\d\.\d{3})</title>", matrix)
    expected = layers[-1][0].mean(0)[:40, :40]
    assert found == [f"{weight:.3f}" for weight in expected.flatten().tolist()]
    assert content.count('shape-rendering="crispEdges"') == 2 * 2


def test_heads_have_the_names_that_the_inspector_gives_them(trained):
    """layer.head, counted from 0."""
    page = Page(trained.report.read_text(encoding="utf-8"))
    heads = [value for name, value in page.attributes if name == "aria-label" and value.startswith("cross ")]
    assert heads == [str(Head("cross", layer, head)) for layer in (0, 1) for head in (0, 1)]
    names = [text for text in page.texts if re.fullmatch(r"(layer|head) \d+", text)]
    assert names == ["head 0", "head 1", "layer 0", "layer 1"]
    assert "Layers and heads count from 0" in page.text


def test_small_maps_have_the_shade_of_every_weight(trained):
    model, vocabulary, _ = load_model(trained.root)
    attention = look(model, vocabulary, "cad", "dac")
    drawn = draw_maps(attention).split("<svg ")[1]
    levels = torch.zeros(4, 4)
    for opacity, path in re.findall(r'stroke-opacity="([\d.]+)" d="([^"]+)"', drawn):
        for start, row, length in re.findall(r"M(\d+) (\d+)h(\d+)", path):
            levels[int(row), int(start) : int(start) + int(length)] = float(opacity)
    torch.testing.assert_close(levels, (attention.layers[0][0].sqrt() * 12).round() / 12, atol=0.006, rtol=0)


def test_a_large_model_and_a_long_sentence_stay_small():
    weights = [torch.rand(32, 90, 70).softmax(-1) for _ in range(8)]
    attention = Attention(["<b>piece"] * 70, ["&"] * 90, weights)
    drawn = draw_matrix(attention, weights[-1].mean(0)) + draw_maps(attention)
    assert attention.cut
    assert len(drawn) < 1_300_000
    assert re.findall(r'aria-label="cross (\d\.0)"', drawn) == [f"{layer}.0" for layer in range(2, 8)]
    Page(drawn)


def test_hostile_text_is_inert_and_visible(crafted):
    sample = {"source": HOSTILE, "target": HOSTILE, "output": HOSTILE}
    content = crafted(
        {"event": "start", "step": 0, "machine": HOSTILE, "parameters": HOSTILE},
        {"event": "validation", "step": 1, "score": 1, HOSTILE: 3.0, "samples": [sample]},
        {"event": "validation", "step": 2, "score": 2, HOSTILE: 4.0, "samples": [sample]},
        {"event": "final", "step": 2, "reason": HOSTILE, HOSTILE: 1.0, "samples": [sample]},
    )
    page = Page(content)
    assert not {"script", "img"} & set(page.tags)
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u2028\u2029\x00-\x09\x0b-\x1f]", content)
    assert "</script><img src=x onerror=alert(1)> ‹U+202E›elif‹U+202C› ‹U+2028› ‹U+0007› &amp;" in page.text


def test_hostile_pieces_are_inert():
    attention = Attention([HOSTILE, "<a>"], ["\u202e", "</svg>"], [torch.full((1, 2, 2), 0.5)])
    page = Page(draw_matrix(attention, attention.layers[0][0]))
    assert set(page.tags) == {"div", "svg", "text", "g", "rect", "title"}
    assert "</svg>" in page.texts


def test_text_that_people_need_stays_as_it_is():
    assert shown("می\u200cخواهم 👩\u200d💻 Größe") == "می\u200cخواهم 👩\u200d💻 Größe"


def test_a_run_without_a_log_or_a_model_has_a_report(tmp_path):
    write_report(Run(tmp_path))
    assert "nothing to draw" in Page((tmp_path / "report.html").read_text()).text


def test_damaged_lines_are_passed_over(crafted):
    content = crafted(
        '{"event": "step", "st',
        "[1, 2]",
        '{"event": ["step"], "step": 3}',
        "[" * 100,
        {"event": "start", "step": "zero", "machine": {"a": 1}, "batches_per_epoch": 0},
        step("ten", loss=1),
        step(None, loss=1),
        step(-4, loss=1),
        step(10**400, loss=10**400),
        step(10, loss=2.5, rate="fast", seconds=None),
        step(20, loss=2.25),
        {"event": "validation", "step": 20, "samples": {"a": 1}, "bleu": "good"},
        {"event": "final", "samples": [3, {"source": 1, "output": "\ud800"}, None]},
    )
    assert "training 2.25 at step 20" in Page(content).text


def test_a_log_that_nests_without_end_is_passed_over(crafted):
    Page(crafted("[" * 100_000, step(1, loss=1)))


def test_nan_does_not_break_a_curve(crafted):
    content = crafted(*(step(n, loss=value) for n, value in enumerate([3.0, nan, 2.0, inf, -inf, 1.0])))
    assert "Left out: 3 non-finite values" in Page(content).text
    paths = re.findall(r'<path class="curve c0" d="([^"]+)"', content)
    assert [path.count("L") for path in paths] == [2]
    assert not re.search(r"\b(nan|inf)\b", content)


def test_after_a_resume_the_last_word_counts(crafted):
    content = crafted(
        {"event": "start", "step": 0},
        step(10, loss=9.0), step(20, loss=8.0), step(30, loss=7.0), validation(20, "old", bleu=1.0),
        {"event": "final", "step": 10, "bleu": 77.31},
        {"event": "start", "step": 10},
        step(20, loss=6.0), validation(20, "new", bleu=2.0),
    )  # fmt: skip
    text = Page(content).text
    assert "training 6 at step 20" in text
    assert "step 30" not in text
    assert "77.31" not in text
    assert "old" not in text.split()
    assert "has not ended" in text


def test_equal_outputs_are_one_row(crafted):
    outputs = ["a", "a", "b", "a"]
    text = Page(crafted(*(validation(100 * n, output) for n, output in enumerate(outputs, 1)))).text
    assert re.findall(r"\d00 (?:– \d00 )?[ab]\b", text) == ["100 – 200 a", "300 b", "400 a"]


@pytest.mark.parametrize(
    ("values", "from_zero"),
    [([1.0], True), ([0.0], True), ([5.0, 5.0], False), ([1e-30, 2e-30], False), ([1, 1 + 1e-16], False), ([1e99, -1e99], True)],
)  # fmt: skip
def test_any_range_can_be_drawn(values, from_zero):
    drawn = draw_chart("title", [Curve("a", list(enumerate(values)))], from_zero=from_zero)
    Page(drawn)
    places = [float(y) for y in re.findall(r'cy="([^"]+)"', drawn)]
    assert len(places) == len(values)
    assert all(0 <= y <= 270 for y in places)


def test_ticks_are_round_and_inside():
    assert round_ticks(0, 100, 5) == [0, 20, 40, 60, 80, 100]
    assert [round(tick, 9) for tick in round_ticks(0.13, 0.42, 5)] == [0.2, 0.3, 0.4]


def test_thinning_keeps_spikes_and_order():
    points = [(n, 100.0 if n == 4_321 else n % 7 / 10) for n in range(10_000)]
    thinned = thin(points)
    assert len(thinned) <= 500
    assert (4_321, 100.0) in thinned
    assert thinned == sorted(thinned)


def test_numbers_are_short():
    numbers = [0, 0.5, 12.345, 999, 1_000, 12_500, 3e6, 4.5e-4, 1e-8, 1e30]
    assert [shown_number(n) for n in numbers] == [
        "0",
        "0.5",
        "12.35",
        "999",
        "1k",
        "12.5k",
        "3M",
        "4.5e-4",
        "1e-8",
        "1e30",
    ]
    assert [as_number(value) for value in (1, True, "1", nan, 10**400)] == [1.0, None, None, None, None]
    assert [duration(seconds) for seconds in (3, 127, 7_500)] == ["3 s", "2 min 07 s", "2 h 05 min"]
    assert evenly(list(range(100)), 3) == [0, 50, 99]
