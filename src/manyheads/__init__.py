"""The Transformer, whole: attention, blocks and models that are correct, fast and readable.

from manyheads import Transformer, load_recipe

recipe = load_recipe("small")
model = Transformer(recipe.model, recipe.data.vocabulary)
"""

from typing import TYPE_CHECKING

from manyheads.errors import ManyheadsError, OptionError, TensorError
from manyheads.lazy import lazy
from manyheads.recipe import Recipe, load_recipe, recipe_names

if TYPE_CHECKING:
    from manyheads.models.config import TransformerConfig as TransformerConfig
    from manyheads.models.cost import transformer_cost as transformer_cost
    from manyheads.models.transformer import Transformer as Transformer
    from manyheads.nn.attention import attention as attention
    from manyheads.nn.multihead import MultiHeadAttention as MultiHeadAttention

__version__ = "0.1.0"
__all__ = [
    "ManyheadsError", "MultiHeadAttention", "OptionError", "Recipe", "TensorError", "Transformer", "TransformerConfig",
    "attention", "load_recipe", "recipe_names", "transformer_cost",
]  # fmt: skip

__getattr__ = lazy(
    __name__,
    {
        "MultiHeadAttention": "manyheads.nn.multihead",
        "Transformer": "manyheads.models.transformer",
        "TransformerConfig": "manyheads.models.config",
        "attention": "manyheads.nn.attention",
        "transformer_cost": "manyheads.models.cost",
    },
)


def __dir__() -> list[str]:
    return __all__
