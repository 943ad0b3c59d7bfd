"""`manyheads score`: how likely a model finds given targets."""

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
    """The log-probability (natural logarithm, end included) of each given target, one a line.

    ```
    manyheads score de-en --data pairs.tsv
    manyheads score runs/de-en --data pairs.de pairs.en --json
    ```

    Parameters
    ----------
    as_json
        One JSON object a line: log_probability, tokens.
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
    say(truncated, "longer than is scored: the score is that of the beginning, or nan if it is more than a megabyte")
