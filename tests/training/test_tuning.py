"""Fine-tuning: the tokenizer and the weights of another model, steps and a rate of its own, and what became of it."""

import json
import shutil

import pytest
import torch

from manyheads import ParallelTranslator, Translator, evaluate, load_recipe, train
from manyheads.errors import InputError, OptionError
from manyheads.modelfolder import load_model, load_parallel_model
from manyheads.storage import write_folder
from manyheads.training.tuning import freeze
from training.corpus import TINY, write_pairs

QUICK = {**TINY, "train.steps": 30, "train.validate_every": 30, "train.ema": 0.0}
FEW = {"train.steps": 4, "train.validate_every": 2, "train.warmup": 0, "train.ema": 0.0, "train.tokens": 128}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    pairs = write_pairs(folder / "train.tsv", 300), write_pairs(folder / "dev.tsv", 20, seed=1)
    train("tiny", train=pairs[0], dev=pairs[1], out=folder / "run", changes=QUICK, device="cpu", quiet=True)
    return folder / "run"


@pytest.fixture
def new(tmp_path):
    """Other data: to be copied, not turned round."""
    for name, count, seed in (("train", 60, 5), ("dev", 10, 6)):
        write_pairs(tmp_path / f"{name}.tsv", count, seed)
        lines = [line.split("\t")[0] for line in (tmp_path / f"{name}.tsv").read_text().splitlines()]
        (tmp_path / f"{name}.tsv").write_text("".join(f"{line}\t{line}\n" for line in lines))
    return {"train": str(tmp_path / "train.tsv"), "dev": str(tmp_path / "dev.tsv"), "device": "cpu", "quiet": True}


def test_it_begins_where_the_other_ended_and_says_what_changed(base, new, tmp_path):
    out = tmp_path / "tuned"
    trained = train(base=base, **new, out=out, changes=FEW)
    assert trained.steps == 4
    assert (out / "tokenizer.json").read_bytes() == (base / "tokenizer.json").read_bytes()
    summary = json.loads((out / "summary.json").read_text())
    translator = Translator.load(base, "cpu")
    for name, data in (("dev", new["dev"]), ("old", base.parent / "dev.tsv")):
        scores = evaluate(translator, data)
        assert summary["before"][name]["perplexity"] == pytest.approx(scores.perplexity, rel=1e-4)
    assert summary["before"].keys() == summary["after"].keys() == {"dev", "old"}
    assert summary["after"]["dev"]["loss"] < summary["before"]["dev"]["loss"]
    assert summary["after"]["old"]["loss"] != summary["before"]["old"]["loss"]
    report = (out / "report.html").read_text()
    assert "Before and after" in report
    for name in ("dev", "old"):
        assert f"{summary['before'][name]['chrf']:.2f}" in report
        assert f"{summary['after'][name]['chrf']:.2f}" in report
    _, _, recipe = load_model(out)
    assert (recipe.base, recipe.model.width, recipe.train.steps) == (str(base), 32, 4)


def test_frozen_parts_stay_bit_for_bit(base, new, tmp_path):
    train(base=base, **new, out=tmp_path / "tuned", changes={**FEW, "train.freeze": "encoder, decoder.blocks.0.cross"})
    before, after = (dict(load_model(place)[0].named_parameters()) for place in (base, tmp_path / "tuned"))
    frozen = [name for name in before if name.startswith(("encoder.", "embed_source.", "decoder.blocks.0.cross"))]
    assert len(frozen) > 10
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]) == (name in frozen), name


def test_a_tuned_run_is_resumed(base, new, tmp_path):
    out = tmp_path / "tuned"
    train(base=base, **new, out=out, changes=FEW)
    again = train(base=base, **new, out=out, changes=FEW | {"train.steps": 6}, resume=True)
    assert again.steps == 6
    before = [json.loads(line)["event"] for line in (out / "log.jsonl").read_text().splitlines()].count("before")
    assert before == 2  # new and old, once each
    assert "before" in json.loads((out / "summary.json").read_text())


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"model.width": 64}, "keeps its shape and its tokenizer, got --set model.width=64"),
        ({"data.vocabulary": 300}, "keeps its shape and its tokenizer, got --set data.vocabulary=300"),
        ({"trian.rate": 5}, "trian is not a section of a recipe"),
        ({"data.max_lenght": 5}, "data.max_lenght is not known"),
        ({"model.dropout": 0.0, "train.rdrop": 1.0}, "R-Drop compares two dropouts"),
        ({"train.freeze": "encoders"}, "train.freeze must name parts of the model, got 'encoders'"),
        ({"train.freeze": "encoder,decoder,embeddings"}, "train.freeze must leave something to train"),
    ],
)
def test_what_cannot_be(base, new, tmp_path, changes, complaint):
    with pytest.raises(OptionError, match=complaint):
        train(base=base, **new, out=tmp_path / "tuned", changes={**FEW, **changes})
    assert not (tmp_path / "tuned").exists()  # the next try may have it


def test_changed_data_is_noticed_by_the_checkpoint_and_may_be_gone_on_with(new, tmp_path, capsys):
    out, changes = tmp_path / "run", {**QUICK, "train.steps": 6, "train.validate_every": 3}
    train("tiny", **new, out=out, changes=changes)
    (tmp_path / "train.tsv").write_text((tmp_path / "train.tsv").read_text() + "abc\tcba\n")
    more = {"changes": {**changes, "train.steps": 9}, "resume": True}
    with pytest.raises(InputError, match=r"other content in .*train.tsv") as error:
        train("tiny", **new, out=out, **more)
    assert "--data-changed" in error.value.hint
    # Without what was prepared, the checkpoint still knows.
    for file in (out / "data").iterdir():
        file.unlink()
    with pytest.raises(InputError, match="got other data than at step 6"):
        train("tiny", **new, out=out, **more)
    trained = train("tiny", **{**new, "quiet": False}, out=out, **more, data_changed=True)
    assert trained.steps == 9
    assert "the data has changed" in capsys.readouterr().err
    newest = json.loads((out / "checkpoints" / "step-9" / "state.json").read_text())
    assert newest["data_since"] == 6
    # And it is the data of the run now.
    assert train("tiny", **new, out=out, changes={**changes, "train.steps": 11}, resume=True).steps == 11


def test_what_a_run_that_never_began_has_left_is_not_trained_on(base, new, tmp_path, capsys):
    out = tmp_path / "tuned"
    with pytest.raises(InputError, match=r"nowhere.tsv"):
        train(base=base, **new, out=out, changes=FEW, old_dev="nowhere.tsv")
    write_pairs(tmp_path / "other.tsv", 30, 8)
    train(base=base, **{**new, "train": str(tmp_path / "other.tsv"), "quiet": False}, out=out, changes=FEW)
    assert "train: 30 pairs" in capsys.readouterr().err


def test_who_resumes_without_the_old_data_is_not_told_of_it(base, new, tmp_path):
    out, bare = tmp_path / "tuned", tmp_path / "bare"
    Translator.load(base, "cpu").save(bare)
    train(base=bare, **new, out=out, changes=FEW, old_dev=base.parent / "dev.tsv")
    train(base=bare, **new, out=out, changes=FEW | {"train.steps": 6}, resume=True)
    assert json.loads((out / "summary.json").read_text())["after"].keys() == {"dev"}


def test_after_a_change_of_data_scores_before_do_not_count(new, tmp_path):
    """A model that was good at easy data must not stay because the new data is harder."""
    out, changes = tmp_path / "run", {**QUICK, "train.steps": 6, "train.validate_every": 3}
    train("tiny", **new, out=out, changes=changes)
    for file in sorted((out / "checkpoints").glob("*/state.json")):  # as if it had been perfect
        state = json.loads(file.read_text()) | {"best": 1e9, "lowest_loss": 0.0}
        contents = {path.name: path.read_bytes() for path in file.parent.iterdir() if path.name != "manifest.json"}
        shutil.rmtree(file.parent)
        write_folder(file.parent, contents | {"state.json": json.dumps(state).encode()})
    before = (out / "model.safetensors").read_bytes()
    (tmp_path / "dev.tsv").write_text("abc\tcba\n")
    train("tiny", **new, out=out, changes={**changes, "train.steps": 9}, resume=True, data_changed=True)
    assert (out / "model.safetensors").read_bytes() != before


@pytest.mark.parametrize("writes", ["mask", "end", "graph"])
def test_a_translator_learns_to_write_all_at_once(base, new, tmp_path, writes):
    """It begins with every weight of the translator; the mask, lengths and links are its own. With a rate of nearly nothing they stay."""
    few = {**FEW, "train.steps": 1, "train.rate": 1e-12, "train.weight_decay": 0.0}
    trained = train(f"parallel/{writes}", base=base, **new, out=tmp_path / "tuned", changes=few)
    assert trained.steps == 1
    before, vocabulary, old = load_model(base)
    after, own, recipe = load_parallel_model(tmp_path / "tuned")
    assert own.dumps() == vocabulary.dumps()
    assert (recipe.task, recipe.parallel.writes, recipe.base) == ("parallel", writes, str(base))
    assert (recipe.model.width, recipe.model.layers) == (old.model.width, old.model.layers)
    assert recipe.refine == load_recipe(f"parallel/{writes}").refine
    weights = after.state_dict()
    for name, weight in before.state_dict().items():
        torch.testing.assert_close(weights[name][: len(weight)], weight, atol=1e-9, rtol=0)
    new_parts = {name for name in weights if name not in before.state_dict()}
    assert {name.split(".")[0] for name in new_parts} == {"mask": {"length"}, "end": set(), "graph": {"link"}}[writes]
    assert len(weights["words.weight"]) == len(before.words.weight) + 1
    assert ParallelTranslator.load(tmp_path / "tuned", "cpu")("a b")


@pytest.fixture(scope="module")
def at_once(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("at_once")
    pairs = write_pairs(folder / "train.tsv", 60, 5), write_pairs(folder / "dev.tsv", 10, 6)
    changes = {**FEW, "train.steps": 1, "model.places": 2.0}
    train("parallel/mask", base=base, train=pairs[0], dev=pairs[1], out=folder / "run", changes=changes, device="cpu", quiet=True)  # fmt: skip
    return folder / "run"


def test_a_model_that_writes_at_once_learns_to_write_another_way(at_once, new, tmp_path):
    few = {**FEW, "train.steps": 1, "train.rate": 1e-12, "train.weight_decay": 0.0}
    assert load_parallel_model(at_once)[2].parallel.places == 2.0
    train("parallel/graph", base=at_once, **new, out=tmp_path / "graph", changes=few)
    before, after = (load_parallel_model(folder)[0].state_dict() for folder in (at_once, tmp_path / "graph"))
    shared = before.keys() & after.keys()
    assert {name.split(".")[0] for name in before.keys() ^ after.keys()} == {"length", "link"}
    for name in shared:
        torch.testing.assert_close(after[name], before[name], atol=1e-9, rtol=0)
    train(base=at_once, **new, out=tmp_path / "same", changes=few)
    assert load_parallel_model(tmp_path / "same")[2].parallel == load_parallel_model(at_once)[2].parallel


@pytest.mark.parametrize("recipe", ["small", "lm/tiny"])
def test_a_model_that_writes_at_once_does_not_learn_other_things(at_once, new, tmp_path, recipe):
    with pytest.raises(OptionError, match=r"for 'parallel', and a recipe for '(translate|generate)'"):
        train(recipe, base=at_once, **new, out=tmp_path / "no")
    with pytest.raises(OptionError, match="keeps its shape"):
        train("parallel/mask", base=at_once, **new, out=tmp_path / "no", changes={"model.width": 64})


def test_who_freezes_a_part_that_is_not_there_is_told_what_is():
    model = torch.nn.ModuleDict({"decoder": torch.nn.Linear(2, 2), "words": torch.nn.Embedding(3, 2)})
    with pytest.raises(OptionError) as error:
        freeze(model, "encoder")
    assert error.value.hint == "did you mean 'decoder'?"
