"""The Transformer, whole: trained from sentence pairs, run, scored and read, from blocks that are correct and fast.

from manyheads import Translator, evaluate, train

train("small", train=["pairs.tsv"], out="runs/mine")
translator = Translator.load("runs/mine")
translator("Ein Hund schläft.")
evaluate(translator, ["test.tsv"]).bleu
"""

from typing import TYPE_CHECKING

from manyheads.errors import InputError, ManyheadsError, OptionError, SaveError, TensorError, TrainingError
from manyheads.lazy import lazy
from manyheads.recipe import Recipe, load_recipe, recipe_names

if TYPE_CHECKING:
    from manyheads.decoding.options import Search as Search
    from manyheads.decoding.translator import Translation as Translation
    from manyheads.decoding.translator import Translator as Translator
    from manyheads.decoding.wishes import Wishes as Wishes
    from manyheads.evaluation.api import evaluate as evaluate
    from manyheads.evaluation.api import score as score
    from manyheads.evaluation.scores import Scores as Scores
    from manyheads.models.config import TransformerConfig as TransformerConfig
    from manyheads.models.cost import transformer_cost as transformer_cost
    from manyheads.models.transformer import Transformer as Transformer
    from manyheads.nn.attention import attention as attention
    from manyheads.nn.multihead import MultiHeadAttention as MultiHeadAttention
    from manyheads.training.api import Trained as Trained
    from manyheads.training.api import train as train

__version__ = "0.1.0"
__all__ = [
    "InputError", "ManyheadsError", "MultiHeadAttention", "OptionError", "Recipe", "SaveError", "Scores", "Search",
    "TensorError", "Trained", "TrainingError", "Transformer", "TransformerConfig", "Translation", "Translator",
    "Wishes", "attention", "evaluate", "load_recipe", "recipe_names", "score", "train", "transformer_cost",
]  # fmt: skip

__getattr__ = lazy(
    __name__,
    {
        "MultiHeadAttention": "manyheads.nn.multihead",
        "Scores": "manyheads.evaluation.scores",
        "Search": "manyheads.decoding.options",
        "Trained": "manyheads.training.api",
        "Transformer": "manyheads.models.transformer",
        "TransformerConfig": "manyheads.models.config",
        "Translation": "manyheads.decoding.translator",
        "Translator": "manyheads.decoding.translator",
        "Wishes": "manyheads.decoding.wishes",
        "attention": "manyheads.nn.attention",
        "evaluate": "manyheads.evaluation.api",
        "score": "manyheads.evaluation.api",
        "train": "manyheads.training.api",
        "transformer_cost": "manyheads.models.cost",
    },
)


def __dir__() -> list[str]:
    return __all__
