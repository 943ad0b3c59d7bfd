"""`manyheads export`: a model of ours, as a folder that other libraries read."""

import sys
from typing import Literal

__all__ = ["export"]


def export(model: str, out: str, /, *, to: Literal["huggingface"]) -> None:
    """Make a folder of a model that other libraries read: of an encoder a BERT, for `transformers` and sentence-transformers; of a language
    model a GPT-2 or a Llama.

    ```
    manyheads export runs/minilm --to huggingface minilm
    manyheads export runs/lm --to huggingface lm
    ```

    Of an encoder with a head, to tell labels or hidden words, the encoder alone is exported. Written are config.json, model.safetensors, tokenizer.json and tokenizer_config.json; for an encoder also modules.json and the
    pooling. What no class there can compute is refused.

    Parameters
    ----------
    model
        A run folder.
    out
        The folder to make.
    to
        Whose libraries are to read it.
    """
    from manyheads.interop.api import export_model

    found = export_model(model, out, to)
    print(f"{found.name} of `transformers`", file=sys.stderr)  # noqa: T201
    print(out)  # noqa: T201
