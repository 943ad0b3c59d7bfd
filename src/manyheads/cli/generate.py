"""`manyheads generate`: a language model goes on with a text."""

import json
from typing import Annotated, Any

from cyclopts import Parameter

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
    """What comes after a text, as it is written.

    ```
    manyheads generate runs/gpt2 --prompt "Once upon a time"
    head -1 story.txt | manyheads generate runs/lm --tokens 200 --temperature 0.7
    ```

    Parameters
    ----------
    model
        A run folder of a language model, or what `manyheads import` has made of a GPT-2.
    prompt
        The text to go on with; without it, standard input. (Models that were trained here know texts of one line.)
    tokens
        To write, at most (default: what the model's recipe says, or 100).
    temperature
        Below 1 the likely becomes likelier; 0 = always the likeliest (default: as the recipe says, or 0.8).
    top_k
        Draw among so many tokens; 0 = all.
    top_p
        Draw among the likeliest tokens that together have this probability (default: as the recipe says, or 0.95).
    seed
        Of the draws: the same seed, the same text.
    as_json
        One JSON object a token, as it is written: token, text, log_probability; the last has a reason: end, tokens or room.
    """
    from manyheads.generation.writer import Writer
    from manyheads.text.lines import read_texts

    given = {"tokens": tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    text = "\n".join(read_texts("-")) if prompt is None else prompt
    for token in Writer.load(model, device, precision).write(text, seed=seed, **options):
        if as_json:
            said = {"token": token.id, "text": token.text, "log_probability": finite(round(token.log_probability, 4))}
            print(json.dumps(said | ({"reason": token.reason} if token.reason else {}), ensure_ascii=False), flush=True)  # noqa: T201
        else:
            print(token.text, end="\n" if token.reason else "", flush=True)  # noqa: T201
