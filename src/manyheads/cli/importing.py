"""`manyheads import`: a model from elsewhere, as a model folder."""

import sys

__all__ = ["import_model"]


def import_model(source: str, out: str, /) -> None:
    """Make a model folder of a BERT, GPT-2 or Llama that Hugging Face's libraries have saved; a BERT also as sentence-transformers saves it.

    ```
    manyheads import all-MiniLM-L6-v2 runs/minilm
    manyheads embed runs/minilm --input sentences.txt --json
    manyheads import distilgpt2 runs/gpt2
    echo "Once upon a time" | manyheads generate runs/gpt2
    ```

    Read are config.json, tokenizer.json, model.safetensors and, if they are there, modules.json, the pooling's config.json and
    sentence_bert_config.json. Nothing in the folder is run.

    Parameters
    ----------
    source
        The folder.
    out
        The folder to make.
    """
    from manyheads.interop.api import import_model as make

    found = make(source, out)
    if found.left_out:
        some = ", ".join(found.left_out[:3]) + (", …" if len(found.left_out) > 3 else "")
        print(f"{len(found.left_out)} tensors that are not needed were left out: {some}", file=sys.stderr)  # noqa: T201
    print(out)  # noqa: T201
