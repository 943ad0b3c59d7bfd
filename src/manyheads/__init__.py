"""Transformers from sentence pairs: train them, translate with them, score them and look inside.

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
    from manyheads.checking.api import check_data as check_data
    from manyheads.checking.api import clean_data as clean_data
    from manyheads.classification.classifier import Classifier as Classifier
    from manyheads.decoding.api import align as align
    from manyheads.decoding.distillation import distill as distill
    from manyheads.decoding.ensemble import ensemble as ensemble
    from manyheads.decoding.find_reading import find_reading as find_reading
    from manyheads.decoding.glossary import Glossary as Glossary
    from manyheads.decoding.glossary import read_glossary as read_glossary
    from manyheads.decoding.options import Search as Search
    from manyheads.decoding.parallel_translator import ParallelTranslator as ParallelTranslator
    from manyheads.decoding.translation import Translation as Translation
    from manyheads.decoding.translator import Translator as Translator
    from manyheads.decoding.wishes import Wishes as Wishes
    from manyheads.embedding.embedder import Embedder as Embedder
    from manyheads.evaluation.api import evaluate as evaluate
    from manyheads.evaluation.api import score as score
    from manyheads.evaluation.compare import compare as compare
    from manyheads.evaluation.scores import Scores as Scores
    from manyheads.generation.writer import Writer as Writer
    from manyheads.inspection.api import Inspection as Inspection
    from manyheads.inspection.api import inspect as inspect
    from manyheads.inspection.headreport import HeadReport as HeadReport
    from manyheads.inspection.headreport import report_heads as report_heads
    from manyheads.interop.api import export_model as export_model
    from manyheads.interop.api import import_model as import_model
    from manyheads.models.classifier import TextClassifier as TextClassifier
    from manyheads.models.config import EncoderConfig as EncoderConfig
    from manyheads.models.config import LanguageModelConfig as LanguageModelConfig
    from manyheads.models.config import ParallelConfig as ParallelConfig
    from manyheads.models.config import TransformerConfig as TransformerConfig
    from manyheads.models.cost import transformer_cost as transformer_cost
    from manyheads.models.encoder import TextEncoder as TextEncoder
    from manyheads.models.language_model import LanguageModel as LanguageModel
    from manyheads.models.masked_model import MaskedModel as MaskedModel
    from manyheads.models.parallel import ParallelTransformer as ParallelTransformer
    from manyheads.models.transformer import Transformer as Transformer
    from manyheads.nn.attention import attention as attention
    from manyheads.nn.multihead import MultiHeadAttention as MultiHeadAttention
    from manyheads.training.api import Trained as Trained
    from manyheads.training.api import train as train
    from manyheads.training.soup import Averaged as Averaged
    from manyheads.training.soup import average_models as average_models

__version__ = "0.1.0"
__all__ = [
    "Averaged", "Classifier", "Embedder", "EncoderConfig", "Glossary", "HeadReport", "InputError", "Inspection", "LanguageModel", "LanguageModelConfig", "ManyheadsError", "MaskedModel", "MultiHeadAttention", "OptionError", "ParallelConfig", "ParallelTransformer", "ParallelTranslator", "Recipe", "SaveError", "Scores",
    "Search", "TensorError", "TextClassifier", "TextEncoder", "Trained", "TrainingError", "Transformer", "TransformerConfig", "Translation",
    "Translator", "Wishes", "Writer", "align", "attention", "average_models", "check_data", "clean_data", "compare", "distill", "ensemble",
    "evaluate", "export_model", "find_reading", "import_model", "inspect", "load_recipe", "read_glossary", "recipe_names", "report_heads", "score", "train", "transformer_cost",
]  # fmt: skip

__getattr__ = lazy(
    __name__,
    {
        "Averaged": "manyheads.training.soup",
        "Classifier": "manyheads.classification.classifier",
        "Embedder": "manyheads.embedding.embedder",
        "EncoderConfig": "manyheads.models.config",
        "Inspection": "manyheads.inspection.api",
        "LanguageModel": "manyheads.models.language_model",
        "LanguageModelConfig": "manyheads.models.config",
        "MaskedModel": "manyheads.models.masked_model",
        "ParallelConfig": "manyheads.models.config",
        "ParallelTransformer": "manyheads.models.parallel",
        "ParallelTranslator": "manyheads.decoding.parallel_translator",
        "MultiHeadAttention": "manyheads.nn.multihead",
        "Scores": "manyheads.evaluation.scores",
        "Search": "manyheads.decoding.options",
        "TextClassifier": "manyheads.models.classifier",
        "TextEncoder": "manyheads.models.encoder",
        "Trained": "manyheads.training.api",
        "Transformer": "manyheads.models.transformer",
        "TransformerConfig": "manyheads.models.config",
        "Translation": "manyheads.decoding.translation",
        "Translator": "manyheads.decoding.translator",
        "Wishes": "manyheads.decoding.wishes",
        "Writer": "manyheads.generation.writer",
        "Glossary": "manyheads.decoding.glossary",
        "read_glossary": "manyheads.decoding.glossary",
        "align": "manyheads.decoding.api",
        "attention": "manyheads.nn.attention",
        "average_models": "manyheads.training.soup",
        "check_data": "manyheads.checking.api",
        "clean_data": "manyheads.checking.api",
        "compare": "manyheads.evaluation.compare",
        "distill": "manyheads.decoding.distillation",
        "ensemble": "manyheads.decoding.ensemble",
        "evaluate": "manyheads.evaluation.api",
        "find_reading": "manyheads.decoding.find_reading",
        "export_model": "manyheads.interop.api",
        "import_model": "manyheads.interop.api",
        "inspect": "manyheads.inspection.api",
        "HeadReport": "manyheads.inspection.headreport",
        "report_heads": "manyheads.inspection.headreport",
        "score": "manyheads.evaluation.api",
        "train": "manyheads.training.api",
        "transformer_cost": "manyheads.models.cost",
    },
)


def __dir__() -> list[str]:
    return __all__
