"""A model that writes backwards, by the same commands as any other."""

import json
from pathlib import Path

import pytest

from cli.command import status
from manyheads import OptionError, Translator, evaluate, inspect, train
from training.corpus import TINY, write_pairs

QUICK = {
    **TINY,
    "train.steps": 400,
    "model.dropout": 0.0,
    "train.tokens": 256,
    "train.validate_every": 400,
    "train.rate": 5e-3,
    "decode.beam": 3,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return {
        "train": [write_pairs(folder / "train.tsv", 300)],
        "dev": [write_pairs(folder / "dev.tsv", 30, seed=1)],
        "device": "cpu",
        "quiet": True,
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory, data):
    """One that writes backwards, one that does not."""
    folder = tmp_path_factory.mktemp("runs")
    for name, backwards in (("back", True), ("forth", False)):
        train("tiny", out=folder / name, changes=QUICK | {"data.backwards": backwards}, **data)
    return folder


def test_it_learns_and_text_is_read_as_ever(runs, data):
    """Lines are to be turned round: who writes from the end on copies, which is soon learnt."""
    back = Translator.load(runs / "back", "cpu")
    assert back.vocabulary.backwards
    assert back.recipe.data.backwards
    assert evaluate(back, data["dev"]).chrf > 80
    right, wrong = back.score([("abcd", "dcba"), ("abcd", "abcd")])
    assert right.log_probability > wrong.log_probability
    assert [len(one.n_best) for one in back.translate(["abc"], back.search(beam=3, n_best=3))] == [3]


def test_it_judges_another(runs, data):
    forth, judged = (
        Translator.load(runs / "forth", "cpu"),
        Translator.load(runs / "forth", "cpu").judged_by(runs / "back"),
    )
    assert evaluate(judged, data["dev"]).chrf >= evaluate(forth, data["dev"]).chrf


def test_the_command_line_asks_judges(runs, data, capsys):
    words = ("--data", *data["dev"], "--json", "--device", "cpu", "--beam", "3")
    assert status("evaluate", str(runs / "forth"), "--judge", str(runs / "back"), str(runs / "forth"), *words) == 0
    said = json.loads(capsys.readouterr().out)
    judged = Translator.load(runs / "forth", "cpu", "fp32").judged_by(runs / "back", runs / "forth")
    assert said["chrf"] == evaluate(judged, data["dev"], beam=3).as_object()["chrf"]
    assert status("evaluate", str(runs / "forth"), "--judge", str(runs / "back"), *words[:-1], "1") == 2
    assert "a judge needs several hypotheses to choose among, got a beam of 1" in capsys.readouterr().err


def test_alignments_count_words_from_the_beginning(runs):
    back = Translator.load(runs / "back", "cpu")
    (found,) = back.align([("abcd", "dcba")], head=back.recipe.decode.alignment)
    assert {link[1] for link in found.links} <= {0, 1, 2, 3}
    (line,) = back.translate(["abcd"], back.search(beam=1), align=back.reading())
    assert line.n_best[0].alignment is not None


def test_it_can_be_looked_at(runs):
    found = inspect(Translator.load(runs / "back", "cpu"), "abcd")
    assert found.translation == Translator.load(runs / "back", "cpu")("abcd")
    assert "".join(piece.text for piece in found.target.pieces[1:-1][::-1]) == found.translation
    assert (runs / "back" / "inspect.html").exists()


@pytest.mark.parametrize("wish", ["--prefix", "--must", "--never"])
def test_what_is_written_from_the_beginning_on_is_refused(runs, wish, capsys, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("abc\n")
    assert status("translate", str(runs / "back"), wish, "a", "--input", str(lines), "--device", "cpu") == 2
    assert "got a model that writes backwards" in capsys.readouterr().err


def test_what_is_not_spelt_can_be_wished_for(runs):
    back = Translator.load(runs / "back", "cpu")
    (long,) = back.translate(["ab"], back.search(beam=3, min_length=6))
    assert len(long.text) >= 5
    (several,) = back.translate(["abc"], back.search(beam=3, alternatives=3))
    assert len({one.text[-1:] for one in several.n_best}) == 3  # it begins with the last letter


def test_a_model_that_judges_itself_changes_nothing(runs):
    forth = Translator.load(runs / "forth", "cpu")
    search = forth.search(beam=3, n_best=3)
    once, thrice = (list(one.translate(["abcd", "hgf", "a"], search)) for one in (forth, forth.judged_by(forth, forth)))
    for before, after in zip(once, thrice, strict=True):
        assert [one.text for one in before.n_best] == [one.text for one in after.n_best]
        assert [one.score for one in before.n_best] == pytest.approx([one.score for one in after.n_best], abs=1e-4)


def test_who_is_trained_further_goes_on_backwards(runs, data, tmp_path):
    train(out=tmp_path / "tuned", base=runs / "back", changes={"train.steps": 2}, **data)
    assert Translator.load(tmp_path / "tuned", "cpu").vocabulary.backwards
    with pytest.raises(OptionError, match="keeps its shape and its tokenizer"):
        train(out=tmp_path / "other", base=runs / "back", changes={"data.backwards": False}, **data)


def test_a_student_writes_as_its_teachers_do(runs, data, tmp_path):
    pieces = {key: value for key, value in QUICK.items() if not key.startswith("data.")} | {"train.steps": 2}
    train("tiny", out=tmp_path / "student", changes=pieces | {"train.teachers": [str(runs / "back")]}, **data)
    student = Translator.load(tmp_path / "student", "cpu")
    assert student.vocabulary.backwards
    assert student.recipe.data.backwards
    both = [str(runs / "back"), str(runs / "forth")]
    with pytest.raises(OptionError, match="one vocabulary"):
        train("tiny", out=tmp_path / "torn", changes=pieces | {"train.teachers": both}, **data)


def test_where_it_means_nothing_it_is_refused(data, tmp_path):
    for recipe in ("parallel/mask", "lm/tiny"):
        with pytest.raises(OptionError, match="backwards"):
            train(recipe, out=tmp_path / "no", changes={"data.backwards": True}, **data)
    with pytest.raises(OptionError, match="not for models that write backwards"):
        train("tiny", out=tmp_path / "no", changes={"data.backwards": True, "data.bpe_dropout": 0.1}, **data)


def test_it_is_the_model_of_lines_that_were_turned_round(data, tmp_path):
    """Bit for bit: what is other about it is the order of letters, and nothing else."""
    turned = {}
    for name in ("train", "dev"):
        lines = [line.split("\t") for line in Path(data[name][0]).read_text().splitlines()]
        turned[name] = [str(tmp_path / f"{name}.tsv")]
        Path(turned[name][0]).write_text("".join(f"{source}\t{target[::-1]}\n" for source, target in lines))
    few = QUICK | {"train.steps": 10, "train.validate_every": 10}
    train("tiny", out=tmp_path / "back", changes=few | {"data.backwards": True}, **data)
    train("tiny", out=tmp_path / "forth", changes=few, **data | turned)
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("back", "forth"))
    assert one == other
