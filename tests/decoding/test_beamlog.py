"""The log of a beam search: it changes nothing, it holds what was found, and its numbers are the model's own."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.test_beam import alphas, build, draw_batch, forced, seeds
from manyheads.decoding.beam import beam_search, continuations
from manyheads.decoding.beamlog import FINISHED, KEPT, LEFT, PRUNED, BeamLog, path_of
from manyheads.decoding.hypothesis import length_penalty
from manyheads.errors import OptionError
from manyheads.text.tokenizer import END

WORDS = 9
lengths, limits, beams = st.integers(1, 7), st.integers(1, 10), st.integers(1, 5)


def searched(model, source, limit, beam, alpha):
    """(what was found, its log, what was written at the beginning of each step)"""
    log, written = BeamLog(alpha), []

    def follow(scores, log_p, rows, given):
        written.append(
            [ids for ids, score in zip(given.tolist(), scores[0].tolist(), strict=True) if score > -torch.inf]
        )
        return continuations(scores, log_p, rows, given)

    found = beam_search(model, source, [limit], beam=beam, alpha=alpha, follow=log.watch(follow))[0]
    return found, log.nodes(), written


def ids_of(nodes, last):
    return [nodes[n].id for n in path_of(nodes, last)]


@settings(max_examples=40)
@given(seeds, lengths, limits, beams, alphas)
@torch.no_grad()
def test_a_search_that_is_watched_finds_the_same_and_the_log_holds_it(seed, length, limit, beam, alpha):
    model = build(seed, WORDS)
    source = draw_batch(WORDS, [length])
    plain = beam_search(model, source, [limit], beam=beam, alpha=alpha)[0]
    found, nodes, _ = searched(model, source, limit, beam, alpha)
    assert found == plain
    ends = [n for n, node in enumerate(nodes) if node.status == FINISHED] or [
        n for n, node in enumerate(nodes) if node.status == LEFT
    ]
    ends = sorted(ends, key=lambda n: -nodes[n].score)[:beam]
    assert [nodes[n].score for n in ends] == pytest.approx([one.score for one in found])
    best = ids_of(nodes, ends[0])
    assert best == [*found[0].ids, *([END] if found[0].finished else [])]


@settings(max_examples=40)
@given(seeds, lengths, limits, beams, alphas)
@torch.no_grad()
def test_every_number_is_what_forced_scoring_gives(seed, length, limit, beam, alpha):
    model = build(seed, WORDS)
    source = draw_batch(WORDS, [length])
    _, nodes, _ = searched(model, source, limit, beam, alpha)
    for n, node in enumerate(nodes):
        path = path_of(nodes, n)
        ids = ids_of(nodes, n)
        assert len(ids) == node.step + 1
        assert node.total == pytest.approx(forced(model, source[0], ids, finished=False), abs=1e-4)
        assert node.total == pytest.approx(sum(nodes[m].log_probability for m in path), abs=1e-4)
        assert node.score == pytest.approx(node.total / length_penalty(len(ids), alpha))


@settings(max_examples=40)
@given(seeds, lengths, limits, beams, alphas)
@torch.no_grad()
def test_what_stays_in_the_beam_is_what_the_search_went_on_with(seed, length, limit, beam, alpha):
    model = build(seed, WORDS)
    source = draw_batch(WORDS, [length])
    _, nodes, written = searched(model, source, limit, beam, alpha)
    for step in range(max(node.step for node in nodes) + 1):
        stays = [ids_of(nodes, n) for n, node in enumerate(nodes) if node.step == step and node.status in (KEPT, LEFT)]
        last = step + 1 == len(written)
        assert last or sorted(stays) == sorted(written[step + 1])
        assert {node.status for node in nodes if node.step == step} <= {LEFT if last else KEPT, FINISHED, PRUNED}
    for n, node in enumerate(nodes):
        assert node.parent is None or (node.parent < n and nodes[node.parent].status == KEPT)
        assert (node.id == END) == (node.status == FINISHED) or node.status == PRUNED


@torch.no_grad()
def test_a_log_is_of_one_sentence():
    model, log = build(0, WORDS), BeamLog(0.0)
    with pytest.raises(OptionError, match="one sentence, got 2"):
        beam_search(model, draw_batch(WORDS, [3, 3]), [4, 4], beam=2, alpha=0.0, follow=log.watch(continuations))
