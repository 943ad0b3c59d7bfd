"""What a search has weighed, as the page is given it: the translation is the best of it, and every look is the model's own."""

import numpy as np
import pytest

from manyheads.decoding.beamlog import FINISHED, path_of
from manyheads.decoding.forced import score_ids
from manyheads.errors import InputError
from manyheads.inspection import hypotheses
from manyheads.inspection.api import inspect
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.hypotheses import looks_of, search_of
from manyheads.inspection.switches import Head
from manyheads.text.tokenizer import END

TEXT = "Ein kleiner Hund schläft unter dem Tisch."


def ids_of(found, last):
    return [found.beam[n].id for n in path_of(found.beam, last)]


def best_of(found):
    ends = [n for n, node in enumerate(found.beam) if node.status == FINISHED]
    return max(ends, key=lambda n: found.beam[n].score)


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"beam": 3}, {"prefix": "A small"}, {"length_penalty": 0.0}])
def test_the_best_of_the_log_is_the_translation(translator, options):
    found = inspect(translator, TEXT, **options)
    assert ids_of(found, best_of(found)) == [piece.id for piece in found.target.pieces[1:]]
    assert found.beam[best_of(found)].score == pytest.approx(found.score, abs=1e-4)


def test_a_log_of_the_whole_search_scores_as_targets_are_scored(translator, found):
    source = [piece.id for piece in found.source.pieces]
    paths = [ids_of(found, n) for n in range(len(found.beam))]
    scores = score_ids(translator.model, [source] * len(paths), paths, translator.longest_scored, 64)
    totals = [score.log_probability for score in scores]
    np.testing.assert_allclose([node.total for node in found.beam], totals, atol=1e-4)


def cross_of(found):
    """The attention that alignments are read from."""
    layer = found.attention["cross"][found.reading.layer]
    return (layer.mean(0) if found.reading.head is None else layer[found.reading.head]).numpy()


def test_every_look_is_that_of_a_model_that_is_made_to_write_it(translator, found):
    looks = looks_of(found)[0]
    assert looks.sum(-1) == pytest.approx(1, abs=2e-3)
    for n in range(0, len(found.beam), 9):
        alone = inspect(translator, TEXT, ids=ids_of(found, n))
        own = cross_of(alone)
        np.testing.assert_allclose(looks[path_of(found.beam, n)], own, atol=1e-3)
        assert alone.log_probability == pytest.approx(found.beam[n].total, abs=1e-4)


def test_looks_are_those_without_the_heads_that_are_off(translator):
    off = [Head("decoder", 0, 1), Head("cross", 1, 2)]
    found = inspect(translator, TEXT, off=off)
    own = cross_of(found)
    np.testing.assert_allclose(looks_of(found)[0][path_of(found.beam, best_of(found))], own, atol=1e-3)


def test_where_there_is_no_room_for_all_the_finished_come_first(found, monkeypatch):
    monkeypatch.setattr(hypotheses, "MOST_TOKENS", 2 * len(found.choices) + 2)
    seen = looks_of(found)[0].sum(-1) > 0
    assert 0 < seen.sum() < len(seen)
    assert seen[path_of(found.beam, best_of(found))].all()


def test_the_page_is_given_nodes_and_looks(found):
    bundle = make_bundle(found)
    assert bundle.header["search"] == search_of(found)
    assert bundle.header["search"]["beam"] == 5
    assert bundle.header["planes"]["search"]["shape"] == (1, len(found.beam), len(found.source.pieces))


@pytest.mark.parametrize("given", [{"target": "A dog."}, {"beam": 2, "n_best": 2, "diversity": 0.5}])
def test_without_one_beam_there_is_no_log(translator, given):
    bundle = make_bundle(inspect(translator, TEXT, **given))
    assert bundle.header["search"] is None
    assert "search" not in bundle.planes


def test_what_a_search_has_left_unfinished_can_be_looked_at(translator, found):
    beginning = [piece.id for piece in found.target.pieces[1:4]]
    alone = inspect(translator, TEXT, ids=beginning)
    assert alone.forced
    assert [piece.id for piece in alone.target.pieces[1:]] == beginning
    assert len(alone.choices) == 3


@pytest.mark.parametrize("ids", [[], [1, 5], [5, END, 6], [1 << 30], [-1]])
def test_ids_that_are_none_are_refused(translator, ids):
    with pytest.raises(InputError):
        inspect(translator, TEXT, ids=ids)
