"""Targets as a model that writes in parallel learns them: places, some of them masked.

The number of masked places is drawn between 1 and all of them, so a model learns to write from nothing, to write from a
few words, and to fill a last gap. What is drawn follows from (seed, epoch, pair) alone.

One row holds both what is read and what is asked for: an id that is masked is stored as mask + id.
"""

import numpy as np
from jaxtyping import Int

from manyheads.text.dropout import gathered, mixed
from manyheads.text.masking import fractions, lowest, places_of
from manyheads.text.shards import Rows
from manyheads.text.tokenizer import END, PADDING

__all__ = ["asked_for", "filled_up", "hide_places", "read_there"]

Ids = Int[np.ndarray, "*shape"]


def hide_places(targets: Rows, keys: Ids, epoch: int, seed: int, mask: int) -> Rows:
    """Mask some places of each target.

    `keys` tell pairs apart: the same key and epoch hide the same places, whatever else is in the batch.
    """
    targets = gathered(targets)
    row, place = places_of(targets)
    stream = mixed(np.uint64(seed) + (np.uint64(epoch) << np.uint64(32)))
    of_rows = mixed(keys.astype(np.uint64) ^ stream)
    draws = mixed(of_rows[row] + place.astype(np.uint64))
    most = 1 + (fractions(of_rows) * targets.lengths).astype(np.int64)
    hidden = lowest(row, draws, targets.lengths, most)
    return targets._replace(ids=targets.ids.astype(np.int64) + np.where(hidden, mask, 0))


def filled_up(targets: Rows, places: Ids) -> Rows:
    """Each target with ends after it, up to its number of `places`."""
    targets = gathered(targets)
    starts = np.cumsum(places) - places
    ids = np.full(int(places.sum()), END, np.int64)
    row, place = places_of(targets)
    ids[starts[row] + place] = targets.ids
    return Rows(ids, starts, places)


def read_there(ids: Ids, mask: int) -> Ids:
    """What a model reads in each place: the mask where something is hidden."""
    return np.minimum(ids, mask)


def asked_for(ids: Ids, mask: int) -> Ids:
    """What a model should write in each place: padding where nothing is hidden."""
    return np.where(ids >= mask, ids - mask, PADDING)
