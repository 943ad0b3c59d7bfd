"""Where heads look, over many pairs: heads of known roles have them, and padding never counts."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inspection.test_trace import CHANGES, build
from manyheads.decoding.reading import Reading
from manyheads.inspection.looking import aligned, chosen_rows, look_over, seen_by
from manyheads.inspection.roles import ROLES, SHARE, SPREAD, role_of
from manyheads.inspection.switches import every_head
from manyheads.inspection.trace import KINDS, trace
from manyheads.text.tokenizer import BEGIN, END

N = 8
ENDS = np.arange(N) == N - 1
ALL = np.ones((N, N), bool)
FIRST = np.eye(N)[0] * (np.arange(N) == 0)[:, None]
LAST = np.eye(N)[-1] * (np.arange(N) == N - 1)[:, None]
KNOWN = {
    "previous": np.eye(N, k=-1) + FIRST,
    "same": np.eye(N),
    "next": np.eye(N, k=1) + LAST,
    "begin and end": np.tile(np.eye(N)[-1], (N, 1)),
    "spread": np.full((N, N), 1 / N),
    "no single role": np.roll(np.eye(N), 3, axis=1) * 0.6 + np.roll(np.eye(N), 4, axis=1) * 0.4,
}


def mean_looks(weights, seen, ends, kind):
    found = chosen_rows(np.array(weights)[None], seen, ends, kind)
    return {name: float(values.mean()) for name, values in found.items() if values.size}


@pytest.mark.parametrize("role", KNOWN)
def test_heads_of_known_roles_have_them(role):
    looks = mean_looks(KNOWN[role], ALL, ENDS, "encoder")
    assert role_of(looks) == role
    if role in ("previous", "same", "next"):
        assert looks[role] == 1  # over the queries that have such a token
    if role == "spread":
        assert looks["evenness"] == pytest.approx(1)


def test_a_query_without_a_choice_tells_nothing():
    """The first query of a decoder sees its begin alone: that is neither a look at the begin nor at itself."""
    seen = np.tril(ALL)
    begins = np.arange(N) == 0
    even = seen / seen.sum(1, keepdims=True)
    looks = mean_looks(even, seen, begins, "decoder")
    assert looks["evenness"] == pytest.approx(1)
    assert looks["ends"] == pytest.approx(np.mean([1 / n for n in range(2, N + 1)]))
    assert "next" not in looks
    only_itself = mean_looks(np.eye(N), np.eye(N, dtype=bool), begins, "encoder")
    assert only_itself == {}
    assert role_of({}) == "no single role"


def test_a_window_is_what_may_be_seen():
    near = seen_by((1, 1), 5, 5)
    assert near.sum(1).tolist() == [2, 3, 3, 3, 2]
    assert seen_by((None, None), 2, 3).all()
    even = near / near.sum(1, keepdims=True)
    assert mean_looks(even, near, np.zeros(5, bool), "encoder")["evenness"] == pytest.approx(1)


def test_the_threshold_is_the_one_that_is_stated():
    assert role_of({"previous": SHARE, "evenness": 1}) == "previous"
    assert role_of({"previous": SHARE - 1e-9, "evenness": SPREAD}) == "spread"
    assert role_of({"previous": SHARE - 1e-9, "evenness": SPREAD - 1e-9}) == "no single role"
    assert role_of({"previous": 0.41, "ends": 0.45}) == "begin and end"
    assert role_of({"aligned": 0.1, "aligned_read": 0.7, "ends": 0.2}) == "aligns"


shares = st.floats(0, 1)


@given(
    st.dictionaries(
        st.sampled_from(["previous", "same", "next", "ends", "aligned", "aligned_read", "evenness"]), shares
    )
)
def test_every_head_has_one_role(looks):
    assert role_of(looks) in ROLES
    places = {name: value for name, value in looks.items() if name != "evenness"}
    assert (role_of(looks) in ("spread", "no single role")) == (max(places.values(), default=0) < SHARE)


@pytest.mark.parametrize("shift", [0, 1])
def test_weight_on_the_partner_is_found_as_a_piece_is_written_and_as_it_is_read(shift):
    partners = [2, 0, 1]  # of three target pieces, among three source pieces and their end
    reads = np.full((4, 4), 0.0)
    reads[:, 3] = 1
    for n, partner in enumerate(partners):
        reads[n + shift] = np.eye(4)[partner]
    other = np.full((4, 4), 0.25)
    layer = np.stack([reads, other])
    found = {name: values for _, name, values in aligned([layer], Reading(0, 0, shift))}
    right, wrong = ("aligned", "aligned_read")[:: 1 - 2 * shift]
    assert found[right].tolist() == [[1, 1, 1], [0.25, 0.25, 0.25]]
    assert found[wrong][0].sum() < 3


# ── against one pair at a time ──────────────────────────────────────────────────────────────────────────────────────

SOURCES = [[5, 9, 17, 4, 22, 31, 8, END], [7, END], [12, 3, 30, END], [END], [4, 4, 19, 21, 6, END]]
TARGETS = [[7, 30, 12], [9, 9, 4, 31, 20, 11, 8], [5], [6, 7], []]


def brute_force(model, pairs, reading):
    """By the definitions, number by number, from traces of single pairs."""
    sums = {head: {} for head in every_head(model)}
    for source, target in pairs:
        found = trace(model, source, [BEGIN, *target])
        cross = found.cross[reading.layer].weights
        chosen = cross.mean(0) if reading.head is None else cross[reading.head]
        for head in sums:
            attended = getattr(found, head.kind)[head.layer]
            weights, seen = attended.weights[head.head].double(), attended.inside().seen
            keys = [BEGIN, *target] if head.kind == "decoder" else source
            for row, (line, may) in enumerate(zip(weights, seen, strict=True)):
                if may.sum() < 2:
                    continue
                entropy = -sum(float(w) * np.log(float(w)) for w in line if w > 0)
                add = lambda name, value, head=head: sums[head].setdefault(name, []).append(float(value))  # noqa: E731
                add("entropy", entropy)
                add("evenness", entropy / np.log(int(may.sum())))
                add("ends", sum(w for w, token in zip(line, keys, strict=True) if token in (BEGIN, END)))
                pace = 1 if head.kind != "cross" else (len(keys) - 1) / max(1, len(weights) - 1)
                add("distance", sum(w * abs(n - row * pace) for n, w in enumerate(line)))
                for name, step in (("previous", -1), ("same", 0), ("next", 1)) if head.kind != "cross" else ():
                    if 0 <= row + step < len(line) and may[row + step]:
                        add(name, line[row + step])
            for n in range(len(target)) if head.kind == "cross" and len(source) > 1 else ():
                partner = int(chosen[n + reading.shift, :-1].argmax())
                sums[head].setdefault("aligned", []).append(float(weights[n, partner]))
                sums[head].setdefault("aligned_read", []).append(float(weights[n + 1, partner]))
    return {head: {name: np.mean(values) for name, values in numbers.items()} for head, numbers in sums.items()}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES.keys())
def test_means_are_those_of_the_definitions_whatever_is_in_a_batch(changes):
    model = build(changes)
    reading = Reading(1, None, 1) if "window" in changes else Reading(0, 2)
    pairs = list(zip(SOURCES, TARGETS, strict=True))
    together = look_over(model, SOURCES, TARGETS, reading, 1024)
    expected = brute_force(model, pairs, reading)
    assert together.keys() == expected.keys()
    for head, numbers in expected.items():
        assert together[head] == pytest.approx(numbers, abs=1e-5)
    assert model.training


def test_of_a_long_pair_the_beginning_is_looked_at():
    model = build({})
    cut = look_over(model, [SOURCES[0]], [TARGETS[1]], Reading(0), 4)
    short = look_over(model, [SOURCES[0][:4]], [TARGETS[1][:3]], Reading(0), 1024)
    assert {head: pytest.approx(numbers) for head, numbers in short.items()} == cut


def test_there_is_a_number_for_every_kind():
    found = look_over(build({}), SOURCES, TARGETS, Reading(0), 1024)
    assert {head.kind for head in found} == set(KINDS)
    assert all(torch.isfinite(torch.tensor(list(numbers.values()))).all() for numbers in found.values())
