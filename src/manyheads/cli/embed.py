"""`manyheads embed`: turn texts into vectors."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from manyheads.cli.alive import invite
from manyheads.cli.options import Device, File, Json, Precision, finite, say
from manyheads.cli.output import check_folder, open_output, refuse_same
from manyheads.errors import OptionError, not_written

__all__ = ["embed"]


Write = Callable[[Any], object]


def embed(
    model: str,
    /,
    *,
    input: Annotated[File, Parameter(name="--input")] = "-",  # noqa: A002
    output: Annotated[File, Parameter(name="--output")] = "-",
    as_json: Json = False,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Print a vector for each line of a file or standard input.

    ```
    manyheads embed runs/minilm --input sentences.txt > vectors.txt
    echo "A dog is asleep." | manyheads embed runs/minilm --json
    ```

    Texts with about the same meaning have vectors that point in about the same direction.

    Parameters
    ----------
    model
        Folder of an encoder, trained here or made by `manyheads import`.
    input
        File to read, one text per line, plain, gzip or zstd; - is standard input.
    output
        File to write, replaced only when complete; a NumPy array if its name ends in .npy; - is standard output.
    as_json
        Print one JSON object per line: text, embedding, tokens. (Otherwise a line holds the numbers of a vector,
        separated by spaces.)
    """
    from manyheads.embedding.embedder import Embedder
    from manyheads.text.lines import read_texts

    refuse_same(output, input)
    truncated = not_finite = 0
    embedder = Embedder.load(model, device, precision)
    invite(input, "type texts, one per line; Ctrl-D ends, and shows the answers")
    with open_vectors(output, as_json, embedder.model.config.width) as write:
        for found in embedder.embed(read_texts(input)):
            truncated += found.truncated
            not_finite += not found.finite
            write(found)
    say(truncated, f"longer than {embedder.config.max_length} tokens: only the beginning was embedded")
    say(not_finite, "with numbers that are not finite (--precision bf16 or fp32 holds larger ones)")


@contextmanager
def open_vectors(path: str, as_json: bool, width: int) -> Iterator[Write]:
    """Open the output for vectors. Yields a function that writes one of them."""
    if path.lower().endswith(".npy"):
        if as_json:
            raise OptionError(f"vectors are written as JSON or as an array, got --json and {path!r}")
        with open_array(path, width) as write:
            yield write
        return
    form = as_object if as_json else as_numbers
    with open_output(path, flush=False) as write_line:
        yield lambda found: write_line(form(found))


@contextmanager
def open_array(path: str, width: int) -> Iterator[Write]:
    """Open a .npy file: vectors go to disk as they come, and the array appears when all of them are written."""
    import numpy as np

    check_folder(path)
    temporary, count = Path(path).with_name(f".{Path(path).name}.writing"), 0
    rows = temporary.with_suffix(".rows")

    def write(found: Any) -> None:
        nonlocal count
        file.write(found.vector.astype(np.float32).tobytes())
        count += 1

    try:
        with open(rows, "wb") as file:
            yield write
        vectors = np.memmap(rows, np.float32, "r", shape=(count, width)) if count else np.empty((0, width), np.float32)
        with open(temporary, "wb") as out:
            np.save(out, vectors)
        os.replace(temporary, path)
    except OSError as error:
        raise not_written(path, error) from None
    finally:
        for left in (rows, temporary):
            left.unlink(missing_ok=True)


def as_object(found: Any) -> str:
    vector = [finite(number) for number in rounded(found)]  # JSON has no NaN
    return json.dumps({"text": found.text, "embedding": vector, "tokens": found.tokens}, ensure_ascii=False)


def as_numbers(found: Any) -> str:
    return " ".join(map(str, rounded(found)))


def rounded(found: Any) -> list[float]:
    """The numbers of a vector, with as many digits as float32 holds."""
    return [float(f"{number:.7g}") for number in found.vector.tolist()]
