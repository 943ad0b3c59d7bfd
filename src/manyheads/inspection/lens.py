"""What a model would write if it stopped after each layer: the last norm and the output table, applied to every one.

After the last layer, that is the model itself. The output of a middle layer was never meant to be read like this: it
shows how near the residual stream already is to a word, not what the model "thinks".

T steps · D model width · W words
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.inspection.inspected import Written
from manyheads.inspection.sides import name_pieces
from manyheads.models.language_model import LanguageModel
from manyheads.models.transformer import Transformer
from manyheads.text.tokenizer import Tokenizer

__all__ = ["layer_logits", "read_layers"]

CANDIDATES = 5
Writing = Transformer | LanguageModel


def read_layers(inspection: Written) -> dict[str, Any]:
    """layers[n][t]: the likeliest pieces after layer n at step t, and the rank of the one that was written. For JSON.

    `norm` is true if a norm was applied before the table. (A post-norm block ends on its own norm and gets no other.)
    """
    model, tokenizer = cast(Writing, inspection.model), inspection.tokenizers["target"]
    written = inspection.written_ids()
    return {
        "norm": model.config.norm == "pre",
        "layers": [
            read_layer(tokenizer, inspection.allowed(layer_logits(model, state)), written)
            for state in inspection.trace.states
        ],
    }


@torch.no_grad()
def layer_logits(model: Writing, state: Float[Tensor, "T D"]) -> Float[Tensor, "T W"]:
    return model.logits(model.decoder.norm(state))


def read_layer(tokenizer: Tokenizer, logits: Float[Tensor, "T W"], written: Sequence[int]) -> list[dict[str, Any]]:
    log_p = logits.double().log_softmax(-1)
    own = log_p[range(len(written)), written]
    ranks = (log_p > own[:, None]).sum(-1).tolist()
    best, ids = (found.tolist() for found in log_p.topk(min(CANDIDATES, log_p.shape[-1])))
    return [
        {
            "rank": rank,
            "log_probability": value,
            "candidates": [
                {"id": i, "text": text, "log_probability": p}
                for i, text, p in zip(ids[t], name_pieces(tokenizer, ids[t]), best[t], strict=True)
            ],
        }
        for t, (rank, value) in enumerate(zip(ranks, own.tolist(), strict=True))
    ]
