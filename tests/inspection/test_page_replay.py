"""View 13, replay, in a real browser: what is on the screen are the numbers that the run has kept."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from browser import assert_address_holds
from film import shoot

from manyheads.inspection.api import inspect
from manyheads.inspection.plane import merged, numbered

HOSTILE = "Hund </script><img src=x onerror=alert(1)> \u202eTisch."


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    return inspect(shoot(tmp_path_factory.mktemp("film") / "run"), replay=True)


@pytest.fixture(scope="module")
def path(film, tmp_path_factory):
    """What `look` of conftest.py opens."""
    return film.save(tmp_path_factory.mktemp("page") / "replay.html")


def weights_of(rows):
    """{step: [weights]} of the table that is copied: what stands behind the measures."""
    first = next(n for n, name in enumerate(rows[0]) if " → " in name)
    return {int(row[0]): np.array(row[first:], float) for row in rows[1:]}


def test_a_page_with_a_replay_begins_with_it_at_its_end(look):
    page = look()
    assert page.text("[role=tab][aria-selected=true]") == "Replay"
    assert page.text(".when") == "step 200 of 200"
    assert page.said.startswith("step 200: dev loss 1.50, BLEU 30.00, log-probability of the reference −")
    assert page.page.url.endswith("replay.html")


def test_a_page_without_one_says_how_to_get_one(look, found, tmp_path):
    page = look("v=replay", at=found.save(tmp_path / "look.html"))
    assert "manyheads inspect RUN --replay --html replay.html" in page.text(".replay")
    page.go("v=matrix")
    assert page.page.get_by_role("tab", name="Matrix").is_visible()
    plain = look("", at=tmp_path / "look.html")
    assert not plain.page.locator("[role=tab]", has_text="Replay").is_visible()


@pytest.mark.parametrize(("kind", "layer", "head"), [("cross", 3, 1), ("encoder", 0, 2), ("decoder", 2, 3)])
def test_weights_of_every_moment_are_those_that_were_kept(look, film, kind, layer, head):
    target, source = film.target.pieces, film.source.pieces
    queries, keys = {
        "encoder": (source, source), "decoder": (target[1:], target[:-1]), "cross": (target[1:], source),
    }[kind]  # fmt: skip
    page = look(f"k={kind}&l={layer}&h={head}")
    for words in (True, False):
        table = weights_of(page.table())
        assert list(table) == [0, 100, 200]
        for moment in film.replay.moments:
            weights = moment.weights[kind][layer][head].astype(float)
            seen = np.tril(np.ones_like(weights)) if kind == "decoder" else np.ones_like(weights)
            if words:
                weights = merged(weights, numbered(queries), numbered(keys))
                seen = merged(seen, numbered(queries), numbered(keys)) > 0
            np.testing.assert_allclose(table[moment.step], weights[seen > 0], atol=2e-6)
        page.page.keyboard.press("w")
        page.ready()


def test_numbers_of_heads_change_with_the_step(look, film):
    from manyheads.inspection.replay import replay_planes

    numbers = replay_planes(film.replay, 1 << 30)["replay/numbers/cross"]
    page = look()
    for step, at in ((0, 0), (100, 1), (200, 2)):
        page.go(f"k=cross&l=3&h=1&c=focus&at={step}")
        shown = page.texts(".block[aria-label=cross] .thumb .value")
        expected = numbers[at, :, 2].reshape(-1)  # formed, entropy, focus
        np.testing.assert_allclose([float(text) for text in shown], expected, atol=0.0051)
        assert f"cross layer 3, head 1: focus {numbers[at, 3, 2, 1]:.4f}" in page.said
    page.page.locator(".block[aria-label=cross] .thumb").nth(4).hover()
    assert page.text(".replay > .tip b") == f"{numbers[2, 1, 2, 0]:.4f}"


def test_what_would_have_been_written_stands_below_the_reference(look, film):
    page = look()
    for step, moment in ((0, film.replay.moments[0]), (200, film.replay.moments[2])):
        page.go(f"at={step}")
        labels = [word.get_attribute("aria-label") for word in page.page.locator(".writing .word").all()]
        assert len(labels) == len(film.target.pieces) - 1
        for n, label in enumerate(labels):
            assert f" {np.exp(moment.log_probability[n]):.4f}" in label
            right = moment.best[n] == film.target.pieces[n + 1].id
            assert label.endswith("the likeliest" if right else f" {np.exp(moment.best_log_probability[n]):.4f}")
    assert page.page.locator(".would.right").count() >= 5


def test_keys_move_through_the_training_and_space_plays_it(look):
    page = look("at=0")
    page.page.locator(".transport input").focus()
    page.page.keyboard.press("ArrowRight")
    page.ready()
    assert page.text(".when") == "step 100 of 200"
    assert page.page.locator(".transport input").get_attribute("aria-valuetext") == "step 100"
    page.page.keyboard.press(" ")  # who wants no motion goes on one step at a time
    page.ready()
    assert page.text(".when") == "step 200 of 200"
    page.page.keyboard.press(" ")
    page.ready()
    assert page.text(".when") == "step 0 of 200"
    page.page.locator(".film-frame").nth(0).focus()
    page.page.keyboard.press("ArrowRight")
    page.ready()
    assert page.said.startswith("step 100: ")
    page.page.locator(".writing .word").nth(0).focus()
    page.page.keyboard.press("ArrowLeft")
    page.ready()
    assert page.said.startswith("step 0: ")
    page.go("k=cross&l=1&h=3")
    page.page.locator(".thumb[aria-current]").focus()
    page.page.keyboard.press("ArrowLeft")
    assert page.said.startswith("cross layer 1, head 2: formed ")
    page.page.keyboard.press("}")
    page.ready()
    assert "head 0" in page.text(".large h3")


def test_a_head_of_the_map_a_picture_of_the_film_and_a_chart_can_be_clicked(look):
    page = look()
    page.page.get_by_role("button", name="encoder, layer 2, head 3").click()
    page.ready()
    assert page.text(".large h3").startswith("encoder layer 2, head 3")
    page.page.locator(".film-frame").nth(1).click()
    page.ready()
    assert "at=100" in page.page.url
    chart = page.page.locator(".curves svg").first
    chart.hover()
    assert "training 4.000 at step 100" in page.said
    box = chart.bounding_box()
    page.page.mouse.click(box["x"] + 42, box["y"] + 40)
    page.ready()
    assert page.text(".when") == "step 0 of 200"
    assert page.texts(".curves figcaption b") == ["Loss", "Dev scores", "formed: encoder 2·3"]


def test_a_cell_has_its_number(look, film):
    page = look("k=cross&l=3&h=1&at=100&w=0")
    page.page.locator(".large .board").focus()
    page.page.keyboard.press("ArrowRight")
    page.ready()
    weight = film.replay.moments[1].weights["cross"][3][1][0, 0]
    assert page.said.endswith(f": {weight:.4f} (cross layer 3, head 1, step 100)")
    assert "t=1" in page.page.url


def test_the_address_holds_it(look):
    assert_address_holds(look, "k=decoder&l=1&h=2&at=100&c=entropy")


def test_an_address_that_makes_no_sense_is_the_last_step(look):
    page = look("at=77&c=nonsense")
    assert page.text(".when") == "step 200 of 200"
    assert page.text(".replay .choice:last-child input:checked + span") == "formed"


def test_as_a_picture_and_as_a_table(look, film):
    page = look("at=100")
    picture = ElementTree.fromstring(page.saved("Save SVG"))
    text = " ".join(picture.itertext())
    assert "at step 100" in text
    assert "Dev scores" in text
    assert page.saved("Save PNG").startswith(b"\x89PNG")
    page.go("v=tables&f=replay")
    cells = [row.split("\t") for row in page.text(".plain-table tbody").split("\n")]
    assert [row[0] for row in cells] == ["0", "100", "200"]
    total = float(film.replay.moments[1].log_probability.sum())
    assert cells[1][1:4] == ["3.0000", "10.0000", f"{total:.4f}".replace("-", "−")]


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1920, "dark")])
def test_it_fits_any_screen(look, width, scheme):
    page = look("at=100", width=width, scheme=scheme)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.page.locator(".film-frame").count() >= 2
    drawn = page.page.evaluate("""() => [...document.querySelectorAll(".replay canvas")].map((one) =>
        new Set(one.getContext("2d").getImageData(0, 0, one.width, one.height).data).size)""")
    assert min(drawn) > 2


def test_hostile_text_is_text(look, tmp_path):
    found = inspect(shoot(tmp_path / "run", HOSTILE, HOSTILE), replay=True)
    page = look("at=0", at=found.save(tmp_path / "hostile.html"))
    page.go("v=tables&f=replay")
    assert page.dialogs == []
    assert page.page.locator("img").count() == 0
