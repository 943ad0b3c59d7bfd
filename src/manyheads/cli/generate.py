"""`manyheads generate`: continue a text with a language model."""

import json
from typing import Annotated, Any

from cyclopts import Parameter

from manyheads.cli.alive import invite
from manyheads.cli.options import Device, Json, Precision, Whole, finite

__all__ = ["generate"]


def generate(
    model: str,
    /,
    *,
    prompt: str | None = None,
    tokens: Whole | None = None,
    temperature: float | None = None,
    top_k: Annotated[Whole | None, Parameter(name="--top-k")] = None,
    top_p: Annotated[float | None, Parameter(name="--top-p")] = None,
    seed: Whole = 1,
    as_json: Json = False,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Continue a text with a language model.

    ```
    manyheads generate runs/gpt2 --prompt "Once upon a time"
    head -1 story.txt | manyheads generate runs/lm --tokens 200 --temperature 0.7
    ```

    The text is printed as it is written.

    Parameters
    ----------
    model
        Folder of a language model, trained here or made by `manyheads import`.
    prompt
        Text to continue (default: standard input). Models trained here know texts of one line only.
    tokens
        Maximum number of tokens to write (default: from the model's recipe, or 100).
    temperature
        Temperature of the draws: below 1, likely tokens become likelier; 0 = always the likeliest (default: from the
        model's recipe, or 0.8).
    top_k
        Draw among this many of the likeliest tokens; 0 = all (default: from the model's recipe, or 0).
    top_p
        Draw among the likeliest tokens that together have this probability (default: from the model's recipe, or 0.95).
    seed
        Seed of the draws; the same seed gives the same text.
    as_json
        Print one JSON object per token, as it is written: token, text, log_probability; the last also has reason: end,
        tokens or room.
    """
    from manyheads.generation.writer import Writer
    from manyheads.text.lines import read_texts

    given = {"tokens": tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if prompt is None:
        invite("-", "type a text; Ctrl-D ends it, and the model goes on")
        prompt = "\n".join(read_texts("-"))
    for token in Writer.load(model, device, precision).write(prompt, seed=seed, **options):
        if as_json:
            said = {"token": token.id, "text": token.text, "log_probability": finite(round(token.log_probability, 4))}
            print(json.dumps(said | ({"reason": token.reason} if token.reason else {}), ensure_ascii=False), flush=True)  # noqa: T201
        else:
            print(token.text, end="\n" if token.reason else "", flush=True)  # noqa: T201
