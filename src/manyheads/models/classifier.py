"""An encoder that predicts which of several classes a text belongs to.

    logits = model(ids, layout, segments)           one for each class

B texts · D width · C classes
"""

from collections.abc import Callable

from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.errors import choose
from manyheads.models.config import EncoderConfig
from manyheads.models.encoder import TextEncoder
from manyheads.nn import Layout, Padded
from manyheads.nn.dropout import Dropout
from manyheads.nn.linear import Linear
from manyheads.nn.pooling import POOLINGS, Pooling
from manyheads.nn.unchanged import unchanged

__all__ = ["TextClassifier", "classify_states"]


def classify_states(
    states: Float[Tensor, "*batch D"],
    layout: Layout,
    pool: Pooling,
    dropout: Callable[[Tensor], Tensor],
    head: Callable[[Tensor], Tensor],
) -> Float[Tensor, "B C"]:
    """Logits of texts from the states of their tokens: pooled to one vector per text, dropout, a linear map."""
    return head(dropout(pool(states, layout).to(states.dtype)))


class TextClassifier(nn.Module):
    """An encoder, `body`, and a linear head that classifies texts.

    The body is an encoder like any other: it may come from elsewhere, and may be taken out. The head starts at zero:
    before training, all classes are equally likely, and no noise disturbs what the body knows.
    """

    def __init__(self, config: EncoderConfig, vocabulary: int, classes: int, pooling: str = "mean") -> None:
        super().__init__()
        self.config = config
        self.body = TextEncoder(config, vocabulary)
        self.pool = choose("embed.pooling", pooling, POOLINGS)
        self.dropout = Dropout(config.dropout) if config.dropout else unchanged
        self.classes = Linear(config.width, classes)
        nn.init.zeros_(self.classes.weight)
        nn.init.zeros_(self.classes.bias)

    def forward(
        self,
        ids: Int[Tensor, "*batch"],
        layout: Layout | None = None,
        segments: Int[Tensor, "*batch"] | None = None,
    ) -> Float[Tensor, "B C"]:
        layout = layout or Padded.like(ids)
        return classify_states(self.body(ids, layout, segments), layout, self.pool, self.dropout, self.classes)
