"""The default recipe, chosen by the number of pairs to learn from."""

from collections.abc import Sequence

from manyheads.errors import OptionError
from manyheads.text.corpus import Corpus, Paths, check_paths, format_of
from manyheads.text.lines import open_text

__all__ = ["count_pairs", "recipe_for", "recipe_name"]

SIZES = ((5_000, "tiny"), (500_000, "small"), (10_000_000, "base"))
"""(fewer pairs than this, recipe)"""

LARGEST = "big"
MARKS = {".tmx": b"</tu>", ".po": b"msgstr"}
"""What each entry of a file has once; in all other formats it is the end of a line."""

CHUNK = 1 << 20


def recipe_for(train: Paths) -> tuple[str, int]:
    """(the recipe's name, about how many pairs there are)"""
    pairs = count_pairs(check_paths(train, "--train"))
    return recipe_name(pairs), pairs


def recipe_name(pairs: int) -> str:
    return next((name for most, name in SIZES if pairs < most), LARGEST)


def count_pairs(corpora: Sequence[Corpus]) -> int:
    """About how many pairs there are: unusable ones are counted, too."""
    for corpus in corpora:
        if corpus.paths[0] == "-":
            raise OptionError(
                "without a recipe, the pairs must be counted first, got standard input, which can be read only once",
                hint=f"name a recipe: {', '.join([*(name for _, name in SIZES), LARGEST])}",
            )
    return sum(count_marks(corpus.paths[0]) for corpus in corpora)


def count_marks(path: str) -> int:
    mark = MARKS.get(format_of(path), b"\n")
    count, rest = 0, b""
    with open_text(path, utf16=True) as file:
        while chunk := file.read(CHUNK):
            text = rest + chunk
            count += text.count(mark)
            rest = text[len(text) - len(mark) + 1 :]  # a mark may lie across two chunks
    return count
