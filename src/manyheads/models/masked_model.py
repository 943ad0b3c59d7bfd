"""An encoder that predicts the words hidden from it: how BERT is pre-trained (Devlin et al. 2019).

    logits = model(ids, layout)                     of every token
    logits = model(ids, layout, places)             of the given places: the product with all words is most of the work
    states = model.states(ids, layout, places)      the states behind these logits: model.logits(states)

D width · W words, the mask among them · M places that are requested
"""

from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.models.config import EncoderConfig
from manyheads.models.encoder import TextEncoder
from manyheads.nn import Layout
from manyheads.nn.eightbits import EightBits
from manyheads.nn.feedforward import ACTIVATIONS
from manyheads.nn.linear import Linear, linear
from manyheads.nn.norms import make_norm

__all__ = ["MaskedModel"]


class MaskedModel(nn.Module):
    """A masked language model over `vocabulary` tokens. All but its head is an encoder, and can be used as one."""

    def __init__(self, config: EncoderConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.body = TextEncoder(config, vocabulary)
        self.prediction = Prediction(config, vocabulary)

    def forward(
        self,
        ids: Int[Tensor, "*batch"],
        layout: Layout | None = None,
        places: Int[Tensor, " M"] | None = None,
        segments: Int[Tensor, "*batch"] | None = None,
    ) -> Float[Tensor, "*asked W"]:
        return self.logits(self.states(ids, layout, places, segments))

    def states(
        self,
        ids: Int[Tensor, "*batch"],
        layout: Layout | None = None,
        places: Int[Tensor, " M"] | None = None,
        segments: Int[Tensor, "*batch"] | None = None,
    ) -> Float[Tensor, "*asked D"]:
        """The states that logits are made of. `places` index the flattened batch, all rows in one sequence."""
        states = self.body(ids, layout, segments)
        return self.prediction(states if places is None else states.flatten(0, -2).index_select(0, places))

    def logits(self, states: Float[Tensor, "*asked D"]) -> Float[Tensor, "*asked W"]:
        return linear(states, self.output_words, self.output_bias)

    @property
    def output_words(self) -> Float[Tensor, "W D"] | EightBits:
        """The vectors that states are compared with: the embedding."""
        return self.body.words.weight

    @property
    def output_bias(self) -> Float[Tensor, " W"]:
        return self.prediction.bias

    def without_head(self, pieces: int) -> TextEncoder:
        """The encoder alone, with only the first `pieces` words: a mask after them is cut off.

        The weights are shared and changed in place: this model cannot be used afterwards.
        """
        words = self.body.words
        words.weight = nn.Parameter(words.weight.detach()[:pieces].clone())
        words.num_embeddings = pieces
        return self.body


class Prediction(nn.Module):
    """BERT's head: one more layer before states are compared with words, and a bias for each word."""

    def __init__(self, config: EncoderConfig, vocabulary: int) -> None:
        super().__init__()
        self.dense = Linear(config.width, config.width)
        own = ACTIVATIONS[config.activation]
        self.activation = (own if own.inputs == 1 else ACTIVATIONS["gelu"]).apply  # a gate would need two inputs
        self.norm = make_norm(config.normaliser, config.width, config.norm_eps)
        self.bias = nn.Parameter(self.dense.bias.new_zeros(vocabulary))
        nn.init.xavier_uniform_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)

    def forward(self, x: Float[Tensor, "*asked D"]) -> Float[Tensor, "*asked D"]:
        return self.norm(self.activation(self.dense(x)))
