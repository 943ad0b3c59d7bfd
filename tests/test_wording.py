"""Words that messages are made of."""

import pytest

from manyheads.errors import how_many


@pytest.mark.parametrize(("count", "said"), [(0, "0 pairs"), (1, "1 pair"), (2, "2 pairs"), (2_000, "2,000 pairs")])
def test_one_is_not_several(count, said):
    assert how_many(count, "pair") == said
