"""`manyheads export`: write a model as a folder that other libraries read."""

import sys
from typing import Literal

__all__ = ["export"]


def export(model: str, out: str, /, *, to: Literal["huggingface"]) -> None:
    """Export a model for Hugging Face's libraries.

    ```
    manyheads export runs/minilm --to huggingface minilm
    manyheads export runs/lm --to huggingface lm
    ```

    An encoder becomes a BERT, for `transformers` and sentence-transformers; a language model becomes a GPT-2 or a
    Llama. If an encoder has a head for labels or hidden words, the head is left out. A model that no class of theirs
    can compute is refused. Files written: config.json, model.safetensors, tokenizer.json and tokenizer_config.json;
    for an encoder also modules.json and the pooling.

    Parameters
    ----------
    model
        Run folder.
    out
        Folder to create; it must not exist.
    to
        Libraries to export for.
    """
    from manyheads.interop.api import export_model

    found = export_model(model, out, to)
    print(f"{found.name} of `transformers`", file=sys.stderr)  # noqa: T201
    print(out)  # noqa: T201
