"""Writing all tokens at once: what is written, in which order, in how many places."""

from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from manyheads.decoding.at_once import write_at_once
from manyheads.decoding.hypothesis import length_penalty
from manyheads.decoding.mask_predict import Filled, masked_again
from manyheads.decoding.up_to_the_end import cut_at_end
from manyheads.decoding.way import AtOnce, places_for
from manyheads.errors import OptionError
from manyheads.models.config import ParallelConfig
from manyheads.models.parallel import SPREAD, ParallelTransformer, lengths_of, likely_lengths
from manyheads.nn import Padded
from manyheads.text.tokenizer import BEGIN, END, FIRST, PADDING

WORDS, LONGEST = 20, 40
SOURCES = [[5, 6, 7, 8, END], [9, END], [12, 13, 14, END]]


def model_that(writes: str, places: float = 1.5, seed: int = 0, **more: object) -> ParallelTransformer:
    torch.manual_seed(seed)
    config = ParallelConfig(
        width=16, layers=2, heads=2, feedforward=32, norm="pre", writes=writes, places=places, **more
    )  # type: ignore[arg-type]
    return ParallelTransformer(config, WORDS).double().eval()


def padded(sources: list[list[int]]) -> Tensor:
    longest = max(map(len, sources))
    return torch.tensor([[*ids, *[PADDING] * (longest - len(ids))] for ids in sources])


def distributions(model: ParallelTransformer, source: list[int], target: list[int]) -> Tensor:
    """log P of every word in every place, of a sentence by itself."""
    ids = torch.tensor([target])
    logits = model.decode(ids, model.encode(torch.tensor([source])), Padded.like(ids))[0]
    banned = [PADDING, BEGIN] if model.config.writes == "end" else [PADDING, BEGIN, END]  # type: ignore[attr-defined]
    logits[:, banned] = -torch.inf
    return logits.log_softmax(-1)


def log_lengths(model: ParallelTransformer, source: list[int]) -> Tensor:
    """log P of every length, by how much it differs from the source's."""
    assert model.length is not None
    return model.length(model.encode(torch.tensor([source])))[0]


@torch.no_grad()
def test_a_wished_length_is_no_decision_of_the_model() -> None:
    model = model_that("mask")
    (found,) = write_at_once(model, padded(SOURCES[:1]), AtOnce(iterations=1, length=4), LONGEST)[0]
    assert found.score == pytest.approx(found.log_probability / 5)


@torch.no_grad()
def test_one_iteration_is_the_likeliest_word_of_every_place() -> None:
    model = model_that("mask")
    for source, found in zip(
        SOURCES, write_at_once(model, padded(SOURCES), AtOnce(iterations=1, lengths=3), LONGEST), strict=True
    ):
        assert len(found) == 3
        for one in found:
            log_p = distributions(model, source, [model.mask] * len(one.ids))
            chance = log_lengths(model, source)[len(one.ids) - len(source) + SPREAD].item()
            assert one.ids == log_p.argmax(-1).tolist()
            assert one.log_probability == pytest.approx(log_p.amax(-1).sum().item())
            assert one.score == pytest.approx((one.log_probability + 0.3 * chance) / (len(one.ids) + 1))
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


@torch.no_grad()
def test_every_iteration_follows_from_the_one_before() -> None:
    """The same, one place after the other, by hand."""
    model, iterations, source = model_that("mask"), 4, SOURCES[0]
    seen: list[object] = []
    write_at_once(model, padded([source]), AtOnce(iterations=iterations, length=9), LONGEST, seen.append)
    steps = [one for one in seen if isinstance(one, Filled)]
    assert len(steps) == iterations
    words, log_p, missing = [model.mask] * 9, [0.0] * 9, set(range(9))
    for i, step in enumerate(steps, 1):
        given = [model.mask if place in missing else word for place, word in enumerate(words)]
        found = distributions(model, source, given)
        for place in missing:
            words[place], log_p[place] = int(found[place].argmax()), found[place].max().item()
        assert step.words[0].tolist() == words
        assert step.written[0].nonzero()[:, 0].tolist() == sorted(missing)
        assert step.log_probability[0].tolist() == pytest.approx(log_p)
        missing = set(sorted(range(9), key=lambda place: log_p[place])[: 9 * (iterations - i) // iterations])


@given(
    st.lists(st.lists(st.sampled_from([-3.0, -2.0, -1.0, -0.5]), min_size=1, max_size=8), min_size=1, max_size=3),
    st.integers(0, 8),
)
def test_the_least_sure_places_are_masked_again(rows: list[list[float]], count: int) -> None:
    longest = max(map(len, rows))
    log_p = torch.tensor([[*row, *[-9.0] * (longest - len(row))] for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    again = torch.minimum(torch.tensor([count] * len(rows)), lengths)
    for row, mask, n in zip(rows, masked_again(log_p, lengths, again)[1].tolist(), again.tolist(), strict=True):
        expected = sorted(range(len(row)), key=lambda place: (row[place], place))[:n]
        assert [place for place, masked in enumerate(mask) if masked] == sorted(expected)


@given(st.integers(1, 70), st.integers(1, 9), st.integers(1, 100), st.integers(0, 1000))
def test_the_likeliest_lengths(source: int, count: int, longest: int, seed: int) -> None:
    log_p = torch.randn(1, 2 * SPREAD + 1, generator=torch.Generator().manual_seed(seed)).log_softmax(-1)
    lengths, chances = likely_lengths(log_p, torch.tensor([source]), count, longest)
    possible = {
        source + d: log_p[0, d + SPREAD].item() for d in range(-SPREAD, SPREAD + 1) if 1 <= source + d <= longest
    }
    expected = sorted(possible, key=lambda length: -possible[length])[:count]
    there = [
        length for length, chance in zip(lengths[0].tolist(), chances[0].tolist(), strict=True) if chance > -torch.inf
    ]
    assert there == expected


@pytest.mark.parametrize("writes", ["mask", "end", "graph"])
@torch.no_grad()
def test_a_sentence_is_written_alike_alone_and_among_others(writes: str) -> None:
    model = model_that(writes)
    for how in (AtOnce(iterations=3, lengths=2), AtOnce(iterations=1, length=4), AtOnce(stretch=2.0)):
        together = write_at_once(model, padded(SOURCES), how, LONGEST)
        for source, found in zip(SOURCES, together, strict=True):
            alone = write_at_once(model, padded([source]), how, LONGEST)[0]
            assert [one.ids for one in found] == [one.ids for one in alone]
            assert [one.score for one in found] == pytest.approx([one.score for one in alone])


@pytest.mark.parametrize("writes", ["mask", "graph"])
def test_as_many_tokens_as_are_wished_for(writes: str) -> None:
    model = model_that(writes, places=3.0)
    for found in write_at_once(model, padded(SOURCES), AtOnce(length=4), LONGEST):
        assert len(found[0].ids) == 4
    likes = [len(found[0].ids) for found in write_at_once(model, padded(SOURCES), AtOnce(lengths=1), LONGEST)]
    wished = [len(found[0].ids) for found in write_at_once(model, padded(SOURCES), AtOnce(stretch=0.5), LONGEST)]
    assert wished == [max(1, round(n * 0.5)) for n in likes]


def test_a_graph_has_no_more_words_than_vertices() -> None:
    model = model_that("graph", places=1.0)
    for source, found in zip(SOURCES, write_at_once(model, padded(SOURCES), AtOnce(length=30), LONGEST), strict=True):
        assert (len(found[0].ids), found[0].finished) == (len(source), False)


@given(st.floats(0.1, 8), st.lists(st.integers(1, 300), min_size=1, max_size=9))
def test_places_are_as_many_in_use_as_in_training(share: float, lengths: list[int]) -> None:
    config = ParallelConfig(writes="end", places=share)
    in_use = places_for(torch.tensor(lengths), share, 1 << 20) + 1
    assert in_use.tolist() == [config.places_for(length) for length in lengths]


@pytest.mark.parametrize("writes", ["mask", "end", "graph"])
def test_learned_positions_are_enough_up_to_their_end(writes: str) -> None:
    for source in ([5] * 19 + [END], [5] * 12 + [END], [5, END]):
        model = model_that(writes, positions="learned", max_length=20)
        assert len(write_at_once(model, padded([source]), AtOnce(), 20)[0][0].ids) <= 20


@pytest.mark.parametrize("part", ["", "decoder."])
@pytest.mark.parametrize("writes", ["mask", "end", "graph"])
def test_what_is_not_finite_gives_nothing(writes: str, part: str) -> None:
    """Also where a length is predicted that is."""
    model = model_that(writes)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith(part):
                parameter.fill_(torch.nan)
    for found in write_at_once(model, padded(SOURCES), AtOnce(), LONGEST):
        assert not found[0].finite


def test_a_number_of_tokens_or_a_share() -> None:
    with pytest.raises(OptionError, match="tokens or as a share, not both"):
        AtOnce(length=3, stretch=1.5)


def test_what_stands_behind_the_first_end_is_cut() -> None:
    found = cut_at_end([7, 8, END, 9, END], [-1.0, -2.0, -3.0, -4.0, -5.0])
    assert (found.ids, found.log_probability, found.score, found.finished) == ([7, 8], -6.0, -2.0, True)
    endless = cut_at_end([7, 8], [-1.0, -2.0])
    assert (endless.ids, endless.finished) == ([7, 8], False)


@torch.no_grad()
def test_places_up_to_the_end() -> None:
    model = model_that("end", places=1.5)
    for source, found in zip(
        SOURCES, write_at_once(model, padded(SOURCES), AtOnce(iterations=1), LONGEST), strict=True
    ):
        log_p = distributions(model, source, [model.mask] * model.config.places_for(len(source)))
        expected = log_p.argmax(-1).tolist()
        assert found[0].ids == (expected[: expected.index(END)] if END in expected else expected)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000), st.sampled_from([0.0, 1.0]))
@torch.no_grad()
def test_the_path_is_the_best_of_all(seed: int, alpha: float) -> None:
    model, source = model_that("graph", places=1.0, seed=seed), [5, 6, 7, END]
    assert model.link is not None
    found = write_at_once(model, padded([source]), AtOnce(iterations=1, length_penalty=alpha), LONGEST)[0][0]
    vertices = len(source) + 2
    masks, last = torch.full((1, vertices), model.mask), torch.tensor([vertices - 1])
    states = model.states(masks, model.encode(torch.tensor([source])), Padded.like(masks))
    links = model.link(states, last)[0]
    says = distributions(model, source, [model.mask] * vertices)
    scores = {}
    for words in range(1, vertices - 1):
        for path in combinations(range(1, vertices - 1), words):
            whole = (0, *path, vertices - 1)
            log_p = sum(links[a, b] for a, b in pairwise(whole)) + sum(says[v].max() for v in path)
            scores[path] = log_p.item() / length_penalty(words, alpha)  # type: ignore[union-attr]
    best = max(scores, key=lambda path: scores[path])
    assert found.ids == [int(says[vertex].argmax()) for vertex in best]
    assert found.score == pytest.approx(scores[best])


@torch.no_grad()
def test_links_go_forward_and_add_up_to_one() -> None:
    model = model_that("graph")
    assert model.link is not None
    last = torch.tensor([6, 3])
    p = model.link(torch.randn(2, 7, 16, dtype=torch.double), last).exp()
    for row, end in enumerate(last.tolist()):
        torch.testing.assert_close(p[row, :end].sum(-1), torch.ones(end))
        assert not p[row, end:].any()
        assert not p[row].tril().any()


def test_the_length_of_a_source_is_that_without_padding() -> None:
    source = padded(SOURCES)
    assert lengths_of(Padded.like(source, source != PADDING)).tolist() == [5, 2, 4]
    assert FIRST == 3


def test_a_length_that_cannot_be_had_is_told() -> None:
    model = model_that("mask")
    for length, there in ((LONGEST, True), (LONGEST + 1, False)):
        for found in write_at_once(model, padded(SOURCES), AtOnce(iterations=1, length=length), LONGEST):
            assert (len(found[0].ids), found[0].finished) == (LONGEST, there)


@torch.no_grad()
def test_links_are_as_exact_in_training_as_in_use() -> None:
    """Under autocast products are rounded to 8 bits, unless they are kept from it."""
    model = model_that("graph").float()
    assert model.link is not None
    for layer in (model.link.query, model.link.key, model.link.gate):
        layer.weight.copy_(layer.weight.bfloat16())
    x, last = torch.randn(2, 9, 16).bfloat16().float(), torch.tensor([8, 5])
    queries, keys = ((layer(x).bfloat16().float().unflatten(-1, (2, 8)).transpose(1, 2)) for layer in (model.link.query, model.link.key))  # fmt: skip
    with torch.autocast("cpu", torch.bfloat16):
        links = model.link(x, last)
    gates = model.link.gate(x).bfloat16().float().log_softmax(-1)
    for row, end in enumerate(last.tolist()):
        for vertex in range(end):
            ahead = slice(vertex + 1, end + 1)
            scores = (queries[row, :, vertex, None] * keys[row, :, ahead]).sum(-1) / 8**0.5
            wanted = (scores.log_softmax(-1) + gates[row, vertex][:, None]).logsumexp(0)
            torch.testing.assert_close(links[row, vertex, ahead], wanted, atol=1e-5, rtol=1e-5)
