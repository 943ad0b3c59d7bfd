"""A run that looks as if the bundled model had been trained in 200 steps: from noise, half way there, and as it is."""

import json
import shutil

import torch

from manyheads.decoding.translator import Translator
from manyheads.inspection.moments import Pair, dump_moment, name_of_moment, see
from manyheads.modelfolder import find_model
from manyheads.models.transformer import Transformer
from manyheads.text.tokenizer import BEGIN, END

SOURCE, TARGET = "Der Hund schläft unter dem Tisch.", "The dog is sleeping under the table."
EVENTS = [
    {"event": "step", "step": 10, "loss": 9.0},
    {"event": "step", "step": 100, "loss": 4.0},
    {"event": "validation", "step": 100, "score": 10.0, "loss": 3.0, "bleu": 10.0},
    {"event": "step", "step": 200, "loss": 2.0},
    {"event": "validation", "step": 200, "score": 30.0, "loss": 1.5, "bleu": 30.0},
]
METRICS = {0: {}, 100: {"loss": 3.0, "bleu": 10.0}, 200: {"loss": 1.5, "bleu": 30.0}}


def shoot(run, source=SOURCE, target=TARGET):
    shutil.copytree(find_model("de-en"), run)
    (run / "log.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in EVENTS))
    (run / "replay").mkdir()
    model, vocabulary = (translator := Translator.load(run, "cpu", "fp32")).single, translator.vocabulary
    (read,), (written,) = vocabulary.source.encode([source]), vocabulary.target.encode([target])
    pair = Pair((*read, END), (BEGIN, *written, END))
    torch.manual_seed(0)
    noise = Transformer(model.config, vocabulary.sizes).state_dict()
    trained = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for step, metrics in METRICS.items():
        model.load_state_dict({name: noise[name].lerp(trained[name], step / 200) for name in noise})
        (run / "replay" / name_of_moment(step)).write_bytes(dump_moment(see(model, pair, step, metrics)))
    return run
