"""Heads of known kinds have the numbers of their kind."""

import numpy as np
import pytest

from manyheads import inspect
from manyheads.inspection.summaries import summaries, summarise

N = 6
KNOWN = {
    "same": np.eye(N),
    "previous": np.eye(N, k=-1) + np.eye(N)[0] * (np.arange(N) == 0)[:, None],
    "next": np.eye(N, k=1) + np.eye(N)[-1] * (np.arange(N) == N - 1)[:, None],
    "even": np.full((N, N), 1 / N),
    "sink": np.tile(np.eye(N)[-1], (N, 1)),
}
ENDS = np.arange(N) == N - 1


@pytest.fixture
def found():
    numbers = summarise(np.stack(list(KNOWN.values())), ENDS, "encoder")
    return {name: {key: values[n] for key, values in numbers.items()} for n, name in enumerate(KNOWN)}


def test_each_kind_is_told_by_its_number(found):
    assert found["same"]["same"] == 1
    assert found["previous"]["previous"] == pytest.approx((N - 1) / N)
    assert found["next"]["next"] == pytest.approx((N - 1) / N)
    assert found["sink"]["ends"] == 1
    assert found["even"]["ends"] == pytest.approx(1 / N)


def test_spread_and_distance(found):
    assert [found[name]["entropy"] for name in ("same", "sink")] == [0, 0]
    assert found["even"]["entropy"] == pytest.approx(np.log(N))
    assert found["even"]["focus"] == pytest.approx(1 / N)
    assert found["same"]["distance"] == 0
    assert found["sink"]["distance"] == pytest.approx(np.mean(range(N)))
    assert found["even"]["distance"] == pytest.approx(np.mean([abs(i - j) for i in range(N) for j in range(N)]))


def test_an_even_pace_through_the_source_is_no_distance():
    weights = np.eye(9)[::2][None]  # five queries, nine keys
    assert summarise(weights, np.arange(9) == 8, "cross")["distance"] == 0
    assert "same" not in summarise(weights, np.arange(9) == 8, "cross")


def test_the_bundled_model_has_heads_of_known_kinds():
    table = summaries(inspect("de-en", "Ein kleiner Hund schläft unter dem Tisch, weil es draußen regnet."))
    assert [len(layers) for layers in table.values()] == [6, 4, 4]
    assert max(max(layer["previous"]) for layer in table["encoder"]) > 0.25
    assert all(len(layer["entropy"]) == 4 for layers in table.values() for layer in layers)
