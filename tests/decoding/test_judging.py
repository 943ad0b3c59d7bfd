"""A judge reads what was written at once, and chooses."""

import json
from typing import Any

import pytest
import torch

from cli.command import status
from decoding.untrained import elsewhere
from manyheads import ParallelTranslator, Translator, inspect
from manyheads.decoding import at_once, judging
from manyheads.decoding.at_once import WAYS, way_of, write_at_once
from manyheads.decoding.desks import Desks, applies
from manyheads.decoding.ensemble import ensemble
from manyheads.decoding.forced import score_ids
from manyheads.decoding.hypothesis import Hypothesis, length_penalty
from manyheads.decoding.judging import Judged, with_end
from manyheads.decoding.way import AtOnce, Way, copied
from manyheads.errors import OptionError
from manyheads.models.parallel import ParallelTransformer
from manyheads.models.transformer import Transformer
from manyheads.recipe import load_recipe
from manyheads.text.tokenizer import END, PADDING
from manyheads.text.vocabulary import Vocabulary, train_tokenizer

SMALL = {"model.width": 16, "model.layers": 2, "model.heads": 2, "model.feedforward": 32, "data.tokenizer": "characters"}  # fmt: skip
LINES = ["abc def", "a", "fed cab fed", "", "b b b"]
LETTERS = "abc def"


def vocabulary(letters: str = LETTERS) -> Vocabulary:
    return Vocabulary(train_tokenizer("characters", [letters], 300))


def writer(writes: str, seed: int = 0, **changes: object) -> ParallelTranslator:
    recipe, words = load_recipe(f"parallel/{writes}", SMALL | changes), vocabulary()
    torch.manual_seed(seed)
    return ParallelTranslator(ParallelTransformer(recipe.parallel, words.sizes).eval(), words, recipe)


def judge(letters: str = LETTERS, **changes: object) -> Translator:
    recipe, words = load_recipe("small", SMALL | {"decode.length_penalty": 3.0} | changes), vocabulary(letters)
    torch.manual_seed(7)
    return Translator(Transformer(recipe.model, words.sizes).eval(), words, recipe)


def candidates(translator: ParallelTranslator, line: str, lengths: int) -> list[Hypothesis]:
    source = torch.tensor([[*translator.vocabulary.source.encode([line])[0], END]])
    return write_at_once(translator.model, source, AtOnce(iterations=2, lengths=lengths), 1 << 20)[0]


@pytest.mark.parametrize("writes", ["mask", "graph"])
def test_the_candidate_is_taken_that_the_judge_finds_likeliest(writes: str) -> None:
    """Each is scored by itself, by the pass that `score` makes."""
    translator, its_judge = writer(writes, seed=4), judge()
    options = {"lengths": 4} | ({"iterations": 2} if writes == "mask" else {})
    found = list(translator.judged_by(its_judge).translate(LINES, translator.judged_by(its_judge).search(**options)))
    chosen_anew = 0
    for line, translation in zip(LINES, found, strict=True):
        if not line:
            assert translation.text == ""
            continue
        written = candidates(translator, line, 4)
        assert len({len(one.ids) for one in written}) == 4
        scores = []
        for one in written:
            source = [*its_judge.vocabulary.source.encode([line])[0], END]
            log_p = score_ids(its_judge.model, [source], [[*one.ids, END]], 1 << 20, 1)[0].log_probability
            scores.append(log_p / length_penalty(len(one.ids) + 1, 3.0))
        best = max(range(4), key=scores.__getitem__)
        chosen_anew += best != 0
        assert translation.text == translator.vocabulary.target.decode(written[best].ids)
        assert translation.score == pytest.approx(scores[best], abs=1e-4)
    assert chosen_anew  # or nothing was tested


def test_paths_of_other_lengths_are_the_best_of_theirs() -> None:
    translator = writer("graph")
    source = torch.tensor([[*translator.vocabulary.source.encode(["abc def"])[0], END]])
    several = candidates(translator, "abc def", 6)
    assert len(several) == 6
    for one in several:
        (alone,) = write_at_once(translator.model, source, AtOnce(length=len(one.ids)), 1 << 20)[0]
        assert alone.ids == one.ids
        assert alone.log_probability == pytest.approx(one.log_probability, abs=1e-4)
    (first,) = candidates(translator, "abc def", 1)
    assert first == several[0]


def test_a_graph_has_no_more_paths_than_lengths() -> None:
    translator = writer("graph", **{"model.places": 1.0})
    assert sorted(len(one.ids) for one in candidates(translator, "ab", 100)) == [1, 2, 3]


def test_what_is_judged_does_not_depend_on_its_batch() -> None:
    translator = writer("mask").judged_by(judge())
    together = list(translator.translate(LINES))
    for line, one in zip(LINES, together, strict=True):
        (alone,) = translator.translate([line])
        assert alone.text == one.text
        assert alone.score == pytest.approx(one.score, abs=1e-5)


@pytest.mark.parametrize("writes", ["mask", "graph"])
@pytest.mark.parametrize("broken", ["writer", "judge"])
def test_what_is_not_finite_gives_nothing(writes: str, broken: str) -> None:
    translator, its_judge = writer(writes), judge()
    with torch.no_grad():
        for parameter in (translator if broken == "writer" else its_judge).model.parameters():
            parameter.fill_(torch.nan)
    (found,) = translator.judged_by(its_judge).translate(["abc"])
    assert (found.text, found.finite) == ("", False)


def test_of_each_candidate_its_words_and_its_end_are_read() -> None:
    words = torch.tensor([[[7, 8, 9], [7, 5, 5], [4, 4, 4]]])
    assert with_end(words, torch.tensor([[3, 1, 0]])).tolist() == [
        [[7, 8, 9, END], [7, END, PADDING, PADDING], [END, PADDING, PADDING, PADDING]]
    ]


@pytest.mark.parametrize("writes", ["mask", "graph"])
@torch.no_grad()
def test_what_is_judged_at_a_desk_is_what_is_judged_without(writes: str) -> None:
    translator = writer(writes).judged_by(judge())
    team, here = translator.team, Desks(torch.device("cpu"), record=False)
    assert team is not None
    way = way_of(team, AtOnce(iterations=2, lengths=3), 60)
    for sources in ([[4, 5, 6, END]], [[4, END, PADDING], [5, 5, END]], [[6, 4, 5, 6, END]]):
        source = torch.tensor(sources)
        found = here.write(team, source, way, way.read) or here.write(team, source, way, way.read)
        wanted = way.read(way.compute(team, source))
        for mine, other in zip(found or [], wanted, strict=True):
            assert [one.ids for one in mine] == [one.ids for one in other]
            assert [one.score for one in mine] == pytest.approx([one.score for one in other], abs=1e-5)


@pytest.mark.parametrize(("writes", "several"), [("graph", False), ("graph", True), ("mask", True)])
def test_where_a_judge_has_no_desk_its_writer_has_one(
    writes: str, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = writer(writes).judged_by(judge())
    wanted = list(translator.translate(LINES))
    here, asked = Desks(torch.device("cpu"), record=False), []

    def at_desk(model: Any, source: Any, way: Way, read: Any) -> Any:
        asked.append(type(way))
        return None if isinstance(way, Judged) else here.write(model, source, way, read)

    monkeypatch.setattr(at_once, "write_at_desk", at_desk)
    monkeypatch.setattr(at_once, "applies", lambda *_: not several)  # several judges may need the host
    for _ in range(2):  # the first desk may have too few places
        found = list(translator.translate(LINES))
        assert [one.text for one in found] == [one.text for one in wanted]
        assert [one.score for one in found] == pytest.approx([one.score for one in wanted], abs=1e-5)
    assert asked[:2] == [Judged, WAYS[writes]]
    assert here.kept


def test_where_a_desk_is_too_small_for_both_it_is_too_small_for_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[type[Way]] = []
    monkeypatch.setattr(at_once, "write_at_desk", lambda model, source, way, read: asked.append(type(way)))
    monkeypatch.setattr(at_once, "applies", lambda *_: True)
    list(writer("mask").judged_by(judge()).translate(LINES))
    assert set(asked) == {Judged}


@torch.no_grad()
def test_what_is_taken_from_a_desk_stays() -> None:
    model, here = writer("graph").model, Desks(torch.device("cpu"), record=False)
    assert isinstance(model, ParallelTransformer)
    way = way_of(model, AtOnce(lengths=3), 60)
    first = here.write(model, torch.tensor([[4, 5, 6, END]]), way, copied)
    before = [x.clone() for x in first]
    here.write(model, torch.tensor([[6, 6, 4, END]]), way, copied)
    assert all(map(torch.equal, first, before))


def test_a_few_sentences_are_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = writer("mask").judged_by(judge())
    together = [one.text for one in translator.translate(LINES)]
    monkeypatch.setattr(judging, "HELD", 1)
    assert [one.text for one in translator.translate(LINES)] == together


@pytest.mark.parametrize("writes", ["mask", "graph"])
def test_tables_of_positions_are_long_enough_for_both(writes: str) -> None:
    """A judge begins with a begin, so that it reads one more than was written."""
    learned = {"model.positions": "learned", "model.max_length": 40, "data.max_length": 20}
    translator = writer(writes, **learned | ({"model.places": 1.5} if writes == "graph" else {}))
    its_judge = judge(**learned)
    assert len(translator.judged_by(its_judge)(["abc def abc def a", "a"], lengths=100)) == 2
    with pytest.raises(OptionError, match="as many positions as the model it judges, got 30 for a model with 40"):
        translator.judged_by(judge(**learned | {"model.max_length": 30}))


def test_who_cannot_judge(tmp_path) -> None:
    writer("graph").save(tmp_path / "graph")
    for one in (writer("mask"), judge()):
        with pytest.raises(
            OptionError, match=r"a judge must write token by token, got .*graph, which writes all at once"
        ):
            one.judged_by(tmp_path / "graph")
    with pytest.raises(OptionError, match="got 40 for a model with no limit"):
        writer("mask").judged_by(judge(**{"model.positions": "learned", "model.max_length": 40, "data.max_length": 20}))
    with pytest.raises(OptionError, match="a judge must be on the same device as the model it judges"):
        writer("mask").judged_by(elsewhere(judge()))
    with pytest.raises(OptionError, match="must write token by token"):
        writer("mask").judged_by(writer("graph"))
    for twice in (
        lambda: writer("mask").judged_by(judge().judged_by(judge())),
        lambda: writer("mask").judged_by(judge()).judged_by(judge()),
    ):
        with pytest.raises(OptionError, match="must not have judges already"):
            twice()
    with pytest.raises(OptionError, match="writes only one, up to its end"):
        writer("end").judged_by(judge())
    with pytest.raises(OptionError, match="same pieces as the model") as error:
        writer("mask").judged_by(judge("abc xyz"))
    assert "--from JUDGE" in (error.value.hint or "")


def test_the_judge_goes_along_where_sides_are_called_by_name() -> None:
    translator = writer("mask").judged_by(judge())
    assert translator.naming("de", "en").judge is translator.judge
    assert translator.naming("de", "en").team is translator.team is not None
    assert writer("mask").judge is None


@pytest.mark.parametrize("writes", ["mask", "graph"])
@pytest.mark.parametrize("wish", [{"length": 4}, {"stretch": 0.5}, {"lengths": 1}])
def test_there_must_be_something_to_choose(writes: str, wish: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="translations of several lengths to choose among, got"):
        writer(writes).judged_by(judge())("abc", **wish)


def test_what_is_of_one_model_is_not_done_with_two(tmp_path) -> None:
    translator = writer("mask").judged_by(judge())
    with pytest.raises(OptionError, match="one by one, got one with a judge"):
        translator.save(tmp_path / "both")
    with pytest.raises(OptionError, match="without a judge, got one with a judge"):
        inspect(translator, "abc")


def test_a_judge_may_be_several(tmp_path) -> None:
    """What they find likeliest together; of two that are the same, what one does."""
    alone = [one.text for one in writer("graph", seed=4).judged_by(judge()).translate(LINES)]
    both = writer("graph", seed=4).judged_by(ensemble([judge(), judge()]))
    assert [one.text for one in both.translate(LINES)] == alone
    judge().save(tmp_path / "judge")
    assert [one.text for one in writer("graph", seed=4).judged_by(tmp_path / "judge").translate(LINES)] == alone


@torch.no_grad()
def test_several_judges_who_read_the_same_pieces_sit_at_one_desk() -> None:
    on_a_gpu: Any = type("Source", (), {"is_cuda": True})()
    alike, apart = (writer("mask", seed=4).judged_by(judge(), judge()).team for _ in range(2))
    assert alike is not None
    assert apart is not None
    apart.judge.reads_alike[1] = False
    assert applies(alike, on_a_gpu)
    assert not applies(apart, on_a_gpu)
    source = torch.tensor([[3, 4, 5, END], [6, END, PADDING, PADDING]])
    way, here = way_of(alike, AtOnce(iterations=2, lengths=3), 999), Desks(torch.device("cpu"), record=False)
    wanted = way.read(way.compute(alike, source))
    here.write(alike, source, way, way.read)  # the first desk may have too few places
    found = here.write(alike, source, way, way.read)
    assert found is not None
    assert [[one.ids for one in some] for some in found] == [[one.ids for one in some] for some in wanted]


@pytest.mark.parametrize("writes", ["mask", "graph"])
def test_in_half_precision(writes: str, tmp_path) -> None:
    writer(writes).save(tmp_path / "writer")
    judge().save(tmp_path / "judge")
    translator = ParallelTranslator.load(tmp_path / "writer", "cpu", "bf16").judged_by(tmp_path / "judge")
    assert translator.judge is not None
    assert translator.judge.precision == "bf16"
    assert all(one.finite for one in translator.translate(LINES))


def test_nothing_is_recorded_again_because_someone_else_has_finished() -> None:
    """While a translator works, its models are evaluating; whoever leaves first puts back what was before."""
    team = writer("mask").judged_by(judge()).team
    assert team is not None
    assert [part.training for part in team.modules()] == [False] * len(list(team.modules()))


def test_at_the_command_line(tmp_path, capsys) -> None:
    writer("graph").save(tmp_path / "writer")
    judge().save(tmp_path / "judge")
    (tmp_path / "pairs.tsv").write_text("abc\tcba\nfed\tdef\n")
    run = ["evaluate", str(tmp_path / "writer"), "--data", str(tmp_path / "pairs.tsv"), "--json", "--judge"]
    assert status(*run, str(tmp_path / "judge")) == 0
    assert json.loads(capsys.readouterr().out)["lines"] == 2
    (tmp_path / "lines").write_text("abc\n")
    how = ["--input", str(tmp_path / "lines"), "--judge", str(tmp_path / "judge")]
    assert status("translate", str(tmp_path / "writer"), *how) == 0
    assert capsys.readouterr().out.count("\n") == 1
    writers = ["--input", str(tmp_path / "lines"), "--judge", str(tmp_path / "writer")]
    assert status("translate", str(tmp_path / "judge"), *writers) != 0
    assert "a judge must write token by token, got" in capsys.readouterr().err


def test_several_judges_are_one() -> None:
    several = [one.text for one in writer("graph", seed=4).judged_by(judge(), judge("abc def")).translate(LINES)]
    both = writer("graph", seed=4).judged_by(ensemble([judge(), judge("abc def")]))
    assert several == [one.text for one in both.translate(LINES)]


def test_what_is_no_judge_is_refused_in_words():
    for one in (writer("mask"), judge()):
        with pytest.raises(OptionError, match="at least one other model, got none"):
            one.judged_by()
        with pytest.raises(OptionError, match="a model must be a folder or a Translator"):
            one.judged_by([judge()])
    for what in ([], ["runs/a"]):
        with pytest.raises(OptionError, match="an ensemble must be made of Translators"):
            ensemble(what)
