"""`manyheads import`: turn a model of another library into a model folder."""

import sys

__all__ = ["import_model"]


def import_model(source: str, out: str, /) -> None:
    """Import a model saved by Hugging Face's libraries.

    ```
    manyheads import all-MiniLM-L6-v2 runs/minilm
    manyheads embed runs/minilm --input sentences.txt --json
    manyheads import distilgpt2 runs/gpt2
    echo "Once upon a time" | manyheads generate runs/gpt2
    ```

    It may be a BERT (also in the format of sentence-transformers), a GPT-2 or a Llama. Files read: config.json,
    tokenizer.json, model.safetensors and, if present, modules.json, the pooling's config.json and
    sentence_bert_config.json. No code in the folder is run.

    Parameters
    ----------
    source
        Folder of the saved model.
    out
        Model folder to create; it must not exist.
    """
    from manyheads.interop.api import import_model as make

    found = make(source, out)
    if found.left_out:
        some = ", ".join(found.left_out[:3]) + (", …" if len(found.left_out) > 3 else "")
        print(f"{len(found.left_out)} tensors that are not needed were left out: {some}", file=sys.stderr)  # noqa: T201
    print(out)  # noqa: T201
