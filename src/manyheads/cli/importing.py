"""`manyheads import`: a model from elsewhere, as a model folder."""

import sys

__all__ = ["import_model"]


def import_model(source: str, out: str, /) -> None:
    """Make a model folder of a BERT that Hugging Face's libraries have saved, also as sentence-transformers does.

    ```
    manyheads import all-MiniLM-L6-v2 runs/minilm
    manyheads embed runs/minilm --input sentences.txt --json
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
    from manyheads.interop.bert import import_bert
    from manyheads.interop.huggingface import Source
    from manyheads.modelfolder import check_new, load_encoder, save_weights

    check_new(out)
    found = import_bert(Source(source))
    save_weights(out, found.weights, found.vocabulary, found.recipe)
    load_encoder(out)  # what was written can be read
    if found.left_out:
        some = ", ".join(found.left_out[:3]) + (", …" if len(found.left_out) > 3 else "")
        print(f"{len(found.left_out)} tensors that making vectors does not need were left out: {some}", file=sys.stderr)  # noqa: T201
    print(out)  # noqa: T201
