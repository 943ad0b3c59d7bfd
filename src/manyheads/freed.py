"""Memory that one step of a training frees is kept for the next.

glibc maps every tensor of more than 32 MB anew and unmaps it when it is freed. The system fills new pages with zeros,
which takes longer than most of what is computed with them: kept, `small` trains a fifth faster in float32
(docs/decisions.md). What somebody has set by hand is left alone, and so are C libraries that know nothing of this.
"""

import ctypes
import os
from collections.abc import Mapping

__all__ = ["keep_freed_memory"]

MOST_MAPPINGS, TRIM_FROM = -4, -1  # M_MMAP_MAX and M_TRIM_THRESHOLD of malloc.h
NONE, NEVER = 0, -1
SET_BY_HAND = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


def keep_freed_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Make it so for the rest of this process. Returns whether it is."""
    if any(name in environment for name in SET_BY_HAND) or "glibc.malloc" in environment.get("GLIBC_TUNABLES", ""):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # macOS, musl; no C library by this name
        return False
    return bool(mallopt(MOST_MAPPINGS, NONE) and mallopt(TRIM_FROM, NEVER))
