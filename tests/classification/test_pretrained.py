"""What was pre-trained on masked words becomes a classifier, or makes vectors: its encoder goes on, its head does not."""

import pytest
import torch

from classification.labelled import write_labelled
from manyheads import train
from manyheads.modelfolder import load_by_task, load_encoder
from manyheads.recipe import change_recipe
from manyheads.training.tuning import Base, tuned_recipe

SMALL = {
    "model.width": 32, "model.layers": 1, "model.heads": 2, "model.feedforward": 64, "data.tokenizer": "characters",
    "data.vocabulary": 300, "train.steps": 2, "train.validate_every": 2, "train.tokens": 256,
}  # fmt: skip
FEW = {"train.steps": 2, "train.validate_every": 2, "train.tokens": 256}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mask")
    (folder / "texts.txt").write_text("\n".join(["abc def gh", "cab fed", "a b c d e f g h"] * 20) + "\n")
    files = {"train": folder / "texts.txt", "dev": folder / "texts.txt", "device": "cpu", "quiet": True}
    train("bert/tiny", **files, out=folder / "run", changes=SMALL)
    return folder / "run"


@pytest.mark.parametrize("task", ["classify", "embed"])
def test_the_encoder_is_that_of_the_pretrained_model(pretrained, task, tmp_path):
    """Frozen, it is as it was. What makes vectors has nothing else to train, so one norm of it is left."""
    frozen, trained = {"classify": ("body", set()), "embed": ("encoder,words.", {"embed.norm.weight", "embed.norm.bias"})}[task]  # fmt: skip
    files = {"train": write_labelled(tmp_path / "train.tsv", 50), "dev": write_labelled(tmp_path / "dev.tsv", 10, 1)}
    changes = {**FEW, "train.freeze": frozen}
    train(f"{task}/finetune", base=pretrained, **files, out=tmp_path / "run", changes=changes, device="cpu", quiet=True)
    model, vocabulary, recipe = load_by_task(tmp_path / "run")
    assert recipe.task == task
    before, known, _ = load_encoder(pretrained)
    found = dict(getattr(model, "body", model).named_parameters())
    assert {name for name, tensor in before.named_parameters() if not torch.equal(found[name], tensor)} == trained
    assert vocabulary.source.as_json() == known.source.as_json()


def test_what_the_new_task_has_no_use_for_stays_behind_and_what_its_recipe_says_counts(pretrained, tmp_path):
    base = Base(pretrained)
    base.recipe = change_recipe(base.recipe.as_tables(), {"data.tokenizer": "bpe", "data.bpe_dropout": 0.1}, "base")
    own = tmp_path / "own.toml"
    own.write_text(
        'extends = "classify/finetune"\n[embed]\npooling = "first"\n[data]\nbad_lines = "skip"\nvocabulary = 9000\n'
    )
    recipe = tuned_recipe(base, own, {})
    assert (recipe.data.bpe_dropout, recipe.embed.pooling, recipe.data.bad_lines) == (0, "first", "skip")
    assert recipe.data.vocabulary == 300, "its tokenizer is that of the base"
