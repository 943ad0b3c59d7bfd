"""Models that write all tokens at once, one of each way, with weights drawn at random."""

import torch

from manyheads import inspect, load_recipe
from manyheads.decoding.parallel_translator import ParallelTranslator
from manyheads.models.config import SPREAD
from manyheads.models.parallel import ParallelTransformer
from manyheads.text.tokenizer import END
from manyheads.text.vocabulary import Vocabulary, train_tokenizer

TEXT = "Ein kleiner Hund schläft unter dem Tisch."
SINGLE_BYTES = 3 + 256
WAYS = ("mask", "end", "graph")
LINES = [TEXT, "Der Hund schläft.", "A little dog sleeps under the table.", "Ein <b>Tisch</b> und ein Hund."] * 3

VIEWS = ["iterations", "align", "lines", "matrix", "map", "lens", "switches", "attribution", "inside", "flow", "pieces", "tables"]  # fmt: skip
TITLES = ["Translate and align", "Lines", "Matrix", "Model map", "Layer lens", "Head switchboard", "Attribution", "Query and key", "Flow", "Text to pieces", "Text form"]  # fmt: skip
HOSTILE = "</script><img src=x onerror=alert(1)> \u202eelif\u202c a"
"""What their page offers, the first of which is called by how they write; and a text that must stay one."""


def make_ending():
    """One that fills in places up to an end, for which the end is a little likelier than what it likes to write most."""
    translator = make_parallel("end", **{"model.tie": "none"})
    likes = inspect(translator, TEXT, iterations=3).taken.iterations[-1].ids[-1]
    with torch.no_grad():
        translator.model.head.weight[END] = translator.model.head.weight[likes] * 1.1
    return translator


def save_parallels(place):
    """Folders of one model of each way."""
    for writes in WAYS:
        make_parallel(writes).save(place / writes)
    return {writes: place / writes for writes in WAYS}


def make_parallel(writes, seed=0, scale=1.7, **options):
    """Weights are larger than a model begins with: so it is surer of some words than of others, and changes its mind."""
    small = {"model.width": 32, "model.layers": 2, "model.heads": 4, "model.feedforward": 48, "data.vocabulary": 320}
    recipe = load_recipe(f"parallel/{writes}", {**small, "model.places": 1.5, **options})
    vocabulary = Vocabulary(train_tokenizer("bpe", LINES, 320))
    torch.manual_seed(seed)
    model = ParallelTransformer(recipe.parallel, vocabulary.sizes).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(scale)
        model.words.weight[:SINGLE_BYTES].mul_(0.2)  # they are seldom written: what it says has words
        if model.length is not None:  # about as long as the source
            model.length.output.weight.mul_(0.1)
            model.length.output.bias.copy_(-0.5 * (torch.arange(-SPREAD, SPREAD + 1) - 0.2).abs())
    return ParallelTranslator(model, vocabulary, recipe)
