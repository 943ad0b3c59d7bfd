"""`manyheads embed`: vectors of texts."""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from manyheads.cli.options import Device, File, Json, Precision, say
from manyheads.cli.output import open_output
from manyheads.errors import OptionError

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
    """A vector for each line: texts that mean about the same have vectors that point about the same way.

    ```
    manyheads embed runs/minilm --input sentences.txt > vectors.txt
    echo "A dog is asleep." | manyheads embed runs/minilm --json
    ```

    Parameters
    ----------
    model
        A model folder, as `manyheads import` makes it.
    input
        A file, plain, gzip or zstd; - is standard input.
    output
        A file, which is replaced when all is written; - is standard output. What ends in .npy is a NumPy array.
    as_json
        One JSON object a line: text, embedding, tokens. Without it, a line holds the numbers of a vector, with spaces between them.
    """
    from manyheads.embedding.embedder import Embedder
    from manyheads.text.lines import read_texts

    truncated = 0
    embedder = Embedder.load(model, device, precision)
    with open_vectors(output, as_json) as write:
        for found in embedder.embed(read_texts(input)):
            truncated += found.truncated
            write(found)
    say(truncated, f"longer than {embedder.config.max_length} tokens: the vector is that of the beginning")


@contextmanager
def open_vectors(path: str, as_json: bool) -> Iterator[Write]:
    """Takes what was embedded, one after the other."""
    if path.lower().endswith(".npy"):
        if as_json:
            raise OptionError(f"vectors are written as JSON or as an array, got --json and {path!r}")
        with open_array(path) as write:
            yield write
        return
    form = as_object if as_json else as_numbers
    with open_output(path, flush=False) as write_line:
        yield lambda found: write_line(form(found))


@contextmanager
def open_array(path: str) -> Iterator[Write]:
    import numpy as np

    from manyheads.storage import replace_file

    vectors: list[Any] = []
    yield lambda found: vectors.append(found.vector)
    held = io.BytesIO()
    np.save(held, np.stack(vectors) if vectors else np.empty((0, 0), np.float32))
    replace_file(Path(path), held.getvalue())


def as_object(found: Any) -> str:
    return json.dumps({"text": found.text, "embedding": rounded(found), "tokens": found.tokens}, ensure_ascii=False)


def as_numbers(found: Any) -> str:
    return " ".join(map(str, rounded(found)))


def rounded(found: Any) -> list[float]:
    """What float32 holds, and no more digits."""
    return [float(f"{number:.7g}") for number in found.vector.tolist()]
