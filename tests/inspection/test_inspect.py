"""One sentence through a model: what it wrote, how sure it was, and where it looked."""

import json
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cli.command import status
from decoding.untrained import build
from manyheads import OptionError, Translator, inspect
from manyheads.errors import InputError
from manyheads.inspection.bundle import blocked, make_bundle, size
from manyheads.inspection.plane import choose_plane, merged
from manyheads.inspection.singlefile import embedded
from manyheads.inspection.trace import KINDS

TEXT = "Ein kleiner Hund schläft unter dem Tisch."
KEYS = ["schema", "source", "target", "translation", "score", "attention"]


@pytest.fixture(scope="module")
def bundled():
    return Translator.load("de-en", "cpu")


@pytest.fixture(scope="module")
def found(bundled):
    return inspect(bundled, TEXT)


def test_it_is_what_translate_gives(bundled, found):
    [line] = bundled.translate([TEXT])
    assert found.translation == line.text == "A little dog is sleeping under the table."
    assert found.score == pytest.approx(line.n_best[0].score, abs=1e-5)
    assert found.log_probability == pytest.approx(line.n_best[0].log_probability, abs=1e-5)
    assert [len(found.attention[kind]) for kind in KINDS] == [6, 4, 4]
    assert str(found.reading) == bundled.recipe.decode.alignment


def test_printed_it_is_a_line(bundled, found):
    assert repr(found) == f"<Inspection of '{TEXT}' → 'A little dog is sleeping under the table.'>"
    assert repr(bundled) == "<Translator: 256 wide, 8,000 → 8,000 pieces, cpu, fp32>"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_drawn_is_what_the_translator_draws(bundled, seed):
    how = {"sample": True, "temperature": 1.5, "seed": seed}
    (expected,) = bundled([TEXT], **how)
    assert inspect(bundled, TEXT, **how).translation == expected


def test_a_given_target_is_scored_as_score_does(bundled):
    found = inspect(bundled, TEXT, "A small dog sleeps.")
    assert found.forced
    assert found.translation == "A small dog sleeps."
    [score] = bundled.score([(TEXT, "A small dog sleeps.")])
    assert found.log_probability == pytest.approx(score.log_probability, abs=1e-4)


def test_choices_are_ranked_and_the_written_one_is_among_them(found):
    for choice, piece in zip(found.choices, found.target.pieces[1:], strict=True):
        values = [candidate.log_probability for candidate in choice.candidates]
        assert values == sorted(values, reverse=True)
        assert sum(map(math.exp, values)) <= 1 + 1e-9
        assert 0 <= choice.entropy <= math.log(8000)
        if choice.rank < len(values):
            assert choice.candidates[choice.rank].id == piece.id
            assert values[choice.rank] == pytest.approx(choice.log_probability)
    assert found.log_probability == pytest.approx(sum(choice.log_probability for choice in found.choices))


def test_a_long_text_has_parts(bundled):
    text = f"{TEXT} {TEXT} Morgen gehen wir alle zusammen in den dunklen Wald."
    first, second = (inspect(bundled, text, part=part) for part in (1, 2))
    assert (first.parts, second.parts, second.part) == (2, 2, 2)
    assert second.source.text.endswith("Wald.")
    with pytest.raises(OptionError, match="part must be from 1 to 2 for this text, got 3"):
        inspect(bundled, text, part=3)


def test_an_output_that_was_cut_off_has_no_end():
    found = inspect(build(max_ratio=0.0, max_extra=3, alignment=None), "ab ca ed")
    assert [piece.text for piece in found.target.pieces].count("⟨end⟩") == 0
    assert len(found.choices) == len(found.target.pieces) - 1 == 3
    assert found.reading is None


@pytest.mark.parametrize("text", ["", " \n", None])
def test_nothing_to_read_is_refused(bundled, text):
    with pytest.raises(InputError, match="needs a text to read"):
        inspect(bundled, text)


# ── planes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.data())
def test_merged_words_are_sums_over_keys_and_means_over_queries(data):
    counts = [data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5)) for _ in range(2)]
    words = [[word for word, count in enumerate(side) for _ in range(count)] for side in counts]
    weights = torch.randn(len(words[0]), len(words[1])).softmax(-1).double().numpy()
    by_hand = np.zeros((len(counts[0]), len(counts[1])))
    for (t, s), weight in np.ndenumerate(weights):
        by_hand[words[0][t], words[1][s]] += weight / counts[0][words[0][t]]
    found = merged(weights, *words)
    assert np.allclose(found, by_hand)
    assert np.allclose(found.sum(1), 1)


def test_rows_of_words_sum_to_one_and_are_named(found):
    plane = choose_plane(found)
    assert (plane.layer, plane.head) == (found.reading.layer, found.reading.head)
    assert plane.rows == ["⟨begin⟩", "A", "little", "dog", "is", "sleeping", "under", "the", "table."]
    assert plane.columns == ["Ein", "kleiner", "Hund", "schläft", "unter", "dem", "Tisch.", "⟨end⟩"]
    assert np.allclose(plane.weights.sum(1), 1)
    assert plane.columns[plane.weights[plane.rows.index("dog")].argmax()] == "Hund"
    read, written = (
        choose_plane(found, pieces=True),
        choose_plane(found, layer=plane.layer, head=plane.head, pieces=True),
    )
    assert written.rows[:-1] == read.rows[1:]  # asked for by name: as any other head
    assert np.array_equal(written.weights, read.weights)
    assert choose_plane(found, head=1).layer == found.reading.layer
    decoder = choose_plane(found, "decoder", 1, 2, pieces=True)
    assert decoder.columns[0] == "⟨begin⟩"
    assert np.array_equal(decoder.weights, found.attention["decoder"][1][2].double().numpy())


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (("cross", 4), "layers 0 to 3, got layer 4"),
        (("encoder", 0, 4), "heads 0 to 3"),
        (("cros",), "one of 'encoder'"),
    ],
)
def test_a_plane_that_is_not_there_is_refused(found, place, said):
    with pytest.raises(OptionError, match=said):
        choose_plane(found, *place)


# ── bundles ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_bundle_has_every_weight_and_what_it_was_made_of(found):
    bundle = make_bundle(found)
    assert bundle.header["left_out"] == []
    for kind in KINDS:
        for layer, weights in enumerate(found.attention[kind]):
            stored = bundle.planes[f"{kind}/{layer}"]
            assert np.abs(stored.astype("float64") - weights.double().numpy()).max() <= 5e-4
            assert np.abs(stored.sum(-1, dtype="float64") - 1).max() <= 1e-3
            inside = getattr(found.trace, kind)[layer].inside()
            for part in ("q", "k", "v", "scores"):
                assert np.array_equal(bundle.planes[f"{kind}/{layer}/{part}"], getattr(inside, part).numpy())
    json.dumps(bundle.header)


@pytest.mark.parametrize(
    ("most", "said"), [(220_000, "all layers but cross 0"), (40_000, "queries, keys"), (4_000, "mean of 2 × 2")]
)
def test_what_does_not_fit_is_left_out_and_said(found, most, said):
    bundle = make_bundle(found, most)
    assert size(bundle.planes) <= most
    assert said in bundle.header["left_out"][0]
    assert {f"{kind}/{n}" for kind in KINDS for n in range(4)} <= bundle.planes.keys()
    assert bundle.planes["cross/0"].dtype == np.float16  # the one that alignments are read from stays as it is
    for name, plane in bundle.planes.items():
        assert bundle.header["planes"][name]["shape"] == plane.shape


def test_blocks_are_means_also_at_the_rim():
    plane = np.random.default_rng(0).random((2, 5, 7)).astype("float16")
    found = blocked(plane, 3)
    for head, row, column in np.ndindex(2, 2, 3):
        block = plane[head, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3].astype("float64")
        assert abs(found[head, row, column] / 255 - block.mean()) <= 1 / 255


def test_data_in_a_page_cannot_end_its_element(bundled):
    text = embedded(make_bundle(inspect(bundled, "</script><!-- & \u2028 Hund", "<img src=x onerror=alert(1)>")))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["header"]["target"]["text"] == "<img src=x onerror=alert(1)>"


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_numbers_on_standard_output(capsys, found):
    assert status("inspect", "de-en", "--text", TEXT, "--json", "-") == 0
    told = json.loads(capsys.readouterr().out)
    assert set(KEYS) <= told.keys()
    assert told["schema"] == "inspection/1"
    assert told["translation"] == found.translation
    for kind in KINDS:
        expected = torch.stack(found.attention[kind])
        assert (torch.tensor(told["attention"][kind]) - expected).abs().max() <= 1e-6


def test_files_of_every_kind(tmp_path, capsys):
    files = [word for form in ("html", "svg", "png", "json") for word in (f"--{form}", str(tmp_path / f"look.{form}"))]
    assert status("inspect", "de-en", "--text", "Ein Hund <schläft> $x_2^3$.", *files) == 0
    assert capsys.readouterr().out == ""
    assert ET.fromstring((tmp_path / "look.svg").read_text()).tag.endswith("svg")
    assert "&lt;schläft&gt;" in (tmp_path / "look.svg").read_text()
    assert (tmp_path / "look.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "look.html").read_text().startswith("<!doctype html>")
    assert json.loads((tmp_path / "look.json").read_text())["source"]["text"] == "Ein Hund <schläft> $x_2^3$."


@pytest.mark.parametrize("view", ["map", "lines"])
def test_the_same_picture_has_the_same_bytes(tmp_path, found, view):
    for name in ("one.svg", "two.svg"):
        found.save(tmp_path / name, view=view)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_map_in_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert status("inspect", "de-en", "--text", TEXT) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        TEXT,
        "A little dog is sleeping under the table.",
        "cross-attention: layer 0, head 0, as each word is read",
    ]
    [dog] = [line for line in lines if line.startswith("dog")]
    assert "██" in dog
    assert dog.endswith("  Hund 1.00")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--layer", "9"], "layers 0 to 3, got layer 9"),
        (["--png", "look.gif"], "--png names a file that ends in .png, got 'look.gif'"),
        (
            ["--svg", "look.svg", "--view", "round"],
            "--view must be one of 'matrix', 'map', 'lines', 'heads', 'iterations', got 'round'",
        ),
        (["--part", "2"], "part must be from 1 to 1 for this text"),
        (["--attribution", "leave-one-out"], "shown by a page, got --attribution leave-one-out without --html"),
        (["--html", "/nowhere/look.html"], "needs a folder that exists, got /nowhere/look.html"),
        (["--replay"], "a replay is shown by a page"),
        (["--html", "/tmp/look.html", "--attribution", "magic"], "attribution must be one of 'gradient-x-input'"),
    ],
)
def test_refusals(capsys, words, said):
    assert status("inspect", "de-en", "--text", TEXT, *words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err


@pytest.mark.parametrize("given", [{"target": "a b " * 600}, {"ids": [5] * 1_025}], ids=["text", "ids"])
def test_a_target_is_bounded_because_each_piece_looks_at_each(given):
    with pytest.raises(InputError, match=r"a target must have .*1,02[34] pieces for this model, got 1,\d{3}"):
        inspect(Translator.load("de-en", "cpu"), "Ein Hund.", **given)
