"""View 5 in a real browser: the steps of decoding, their candidates, and how sure the model was."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from manyheads.inspection.api import inspect
from manyheads.inspection.choices import added

TEXT = "Ein kleiner Hund schläft unter dem Tisch."


def numbers(page):
    return [float(text) for text in page.texts(".candidates .number")]


def test_a_step_shows_what_else_could_have_been_written(look, found):
    page = look("v=steps&t=4")
    choice = found.choices[3]
    probabilities = [np.exp(candidate.log_probability) for candidate in choice.candidates]
    assert numbers(page) == pytest.approx(probabilities, abs=6e-5)
    assert [text.strip("␣") for text in page.texts(".candidates .label")] == [
        candidate.text.strip() or "" for candidate in choice.candidates
    ]
    assert page.page.locator(".candidate.written .rank").inner_text() == str(choice.rank + 1)
    assert f"{choice.entropy:.4f} nats" in page.text(".decoding .facts")
    assert f"{probabilities[0] - probabilities[1]:.4f}" in page.text(".decoding .facts")
    assert page.said.startswith(f"step 4 of {len(found.choices)} writes ‘is’: {probabilities[choice.rank]:.4f}")


def test_source_words_are_lit_by_where_the_step_looked(look, found):
    page = look("v=steps&t=3&w=0")
    weights = found.attention["cross"][found.reading.layer].mean(0)[2].numpy()
    titles = [float(word.get_attribute("title")) for word in page.page.locator(".reading .word").all()]
    assert titles == pytest.approx(weights.tolist(), abs=1e-3)
    page.page.locator(".steps .now").focus()
    page.page.keyboard.press("b")
    page.ready()
    without = [float(word.get_attribute("title")) for word in page.page.locator(".reading .word").all()]
    assert without == pytest.approx((weights[:-1] / weights[:-1].sum()).tolist(), abs=2e-3)
    assert "rescaled to add up to 1" in page.text(".notes")


def test_a_given_translation_that_is_not_the_likeliest_says_its_rank(look, translator, tmp_path):
    found = inspect(translator, TEXT, "A zebra sleeps.")
    found.save(tmp_path / "given.html")
    page = look("v=steps&t=2", tmp_path / "given.html")
    assert found.choices[1].rank >= 10
    assert page.page.locator(".candidate").count() == 11
    assert page.text(".candidate.written .rank") == str(found.choices[1].rank + 1)
    assert numbers(page)[-1] == pytest.approx(np.exp(found.choices[1].log_probability), abs=6e-5)
    assert f"rank\n{found.choices[1].rank + 1} the translation was given" in page.text(".decoding .facts")


def test_arrow_keys_and_space_go_from_step_to_step(look):
    page = look("v=steps")
    page.page.locator(".steps .now").focus()
    page.page.keyboard.press("ArrowRight")
    page.ready()
    assert page.said.startswith("step 2 of")
    assert page.page.evaluate("document.activeElement.className") == "word now"
    page.page.keyboard.press("Space")  # without motion, playing is a step
    page.ready()
    assert page.said.startswith("step 3 of")
    assert page.page.url.endswith("t=3")
    page.page.keyboard.press("ArrowLeft")
    page.ready()
    assert page.said.startswith("step 2 of")


@pytest.mark.slow
def test_it_plays_to_the_end_and_can_be_stopped(look, found):
    page = look("v=steps&t=8")
    page.page.emulate_media(reduced_motion="no-preference")
    page.page.get_by_role("button", name="Play").click()
    assert page.page.get_by_role("button", name="Pause").count() == 1
    page.page.wait_for_function(f"() => location.hash.endsWith('t={len(found.choices)}')")
    page.page.wait_for_selector("button:text-is('Play')")
    page.page.get_by_role("button", name="Play").click()
    page.page.get_by_role("button", name="Pause").click()
    assert page.said.startswith("step 1 of")


def test_a_file_says_that_it_cannot_go_on(look):
    page = look("v=steps")
    assert page.page.locator("button.candidate").count() == 0
    assert "manyheads serve" in page.text(".decoding .note")


def test_the_table_and_the_picture_hold_every_step(look, found):
    page = look("v=steps")
    rows = page.table()
    assert rows[0] == ["step", "piece", "rank", "candidate", "probability", "written", "entropy", "margin"]
    assert len(rows) == 1 + 10 * len(found.choices)
    assert sum(int(row[5]) for row in rows[1:]) == len(found.choices)
    expected = [np.exp(candidate.log_probability) for choice in found.choices for candidate in choice.candidates]
    np.testing.assert_allclose([float(row[4]) for row in rows[1:]], expected, atol=1e-6)
    picture = ElementTree.fromstring(page.saved("Save SVG"))
    assert len(picture.findall(".//{http://www.w3.org/2000/svg}g")) == len(found.choices)
    assert page.saved("Save PNG")[:4] == b"\x89PNG"


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1920, "dark")])
def test_it_fits_the_screen(look, width, scheme):
    for address in ("v=steps&t=4", "v=switches"):
        page = look(address, width=width, scheme=scheme)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_a_candidate_adds_is_text_that_ends_in_it(translator, found):
    tokenizer = translator.vocabulary.target
    written = [piece.id for piece in found.target.pieces[1:]]
    for row, choice in enumerate(found.choices):
        for candidate in choice.candidates:
            assert tokenizer.decode(written[:row]) + candidate.adds == tokenizer.decode([*written[:row], candidate.id])


def test_half_a_letter_adds_nothing(translator):
    tokenizer = translator.vocabulary.target
    first, *others = tokenizer.encode(["🦉"])[0]
    halves = [i for i in [first, *others] if "‹" in tokenizer.pieces([i])[0]]
    assert added(tokenizer, [], halves[0]) is None
    assert added(tokenizer, halves[:1], tokenizer.encode(["dog"])[0][0]) is None
