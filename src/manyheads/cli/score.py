"""`manyheads score`: how likely given targets are to a model."""

import json

from manyheads.cli.options import Data, Device, Json, Model, SourceName, TargetName, finite, say

__all__ = ["score"]


def score(
    model: Model,
    /,
    *,
    data: Data,
    source: SourceName = None,
    target: TargetName = None,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Print the log-probability of each target, given its source.

    ```
    manyheads score de-en --data pairs.tsv
    manyheads score runs/de-en --data pairs.de pairs.en --json
    ```

    There is one number per line: the natural logarithm, with the end of the target included.

    Parameters
    ----------
    as_json
        Print one JSON object per line: log_probability, tokens.
    """
    from manyheads.decoding.loading import load_translator
    from manyheads.evaluation.api import score as score_pairs

    truncated = 0
    for one in score_pairs(load_translator(model, device, "fp32").naming(source, target), data):
        truncated += one.truncated
        if as_json:
            print(json.dumps({"log_probability": finite(one.log_probability), "tokens": one.tokens}))  # noqa: T201
        else:
            print(f"{one.log_probability:.4f}")  # noqa: T201
    say(truncated, "too long to score in full: the score is that of the beginning, or nan beyond a megabyte")
