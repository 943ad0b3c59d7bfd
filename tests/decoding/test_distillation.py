"""A corpus as a teacher writes it: what it says, what it refuses to learn from, and what is left of it by a kill."""

import errno
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from cli.command import status
from manyheads import Translator, distill, ensemble
from manyheads.decoding import distillation
from manyheads.decoding.distillation import fault_of, is_line
from manyheads.decoding.translation import Alternative, Translation
from manyheads.errors import InputError, OptionError, SaveError
from manyheads.modelfolder import load_model, save_model
from manyheads.text import partfile
from manyheads.text.partfile import PartFile

GERMAN = ["Der Hund schläft.", "Ich habe Hunger.", "Bis morgen!", "Tom wohnt in Boston.", "Guten Tag.", "Es regnet."]


@pytest.fixture
def corpus(tmp_path):
    """Forty pairs, whose targets nobody would take for translations; sources come again."""
    file = tmp_path / "train.tsv"
    lines = [f"{GERMAN[n % 6]} {n % 7}\tgiven {n}" for n in range(40)]
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture
def small_lots(monkeypatch):
    monkeypatch.setattr(distillation, "LOT", 8)


@pytest.fixture(scope="module")
def translator():
    return Translator.load("de-en", "cpu")


def pairs_in(file):
    return [tuple(line.split("\t")) for line in file.read_text().splitlines()]


def test_sources_stay_and_targets_are_the_teachers(tmp_path, corpus, translator, small_lots):
    out, heard = tmp_path / "distilled.tsv", []
    found = distill("de-en", corpus, out, device="cpu", beam=2, seen=lambda *told: heard.append(told))
    sources = [source for source, _ in pairs_in(corpus)]
    assert pairs_in(out) == list(zip(sources, translator(sources, beam=2), strict=True))
    assert (found.pairs, found.before, found.kept, found.counts.pairs) == (40, 0, {}, 40)
    assert heard == [(0, 40), (8, 40), (16, 40), (24, 40), (32, 40)]
    assert not (tmp_path / "distilled.tsv.part").exists()


def test_what_is_cut_off_keeps_its_own_target_and_is_counted(tmp_path, corpus):
    out = tmp_path / "distilled.tsv.gz"
    found = distill("de-en", corpus, out, device="cpu", beam=1, max_length=1)
    assert gzip.decompress(out.read_bytes()) == corpus.read_bytes()
    assert found.kept == {"cut off": 40}


@pytest.mark.parametrize(
    ("text", "matter", "fault"),
    [
        ("Fine.", {}, ""),
        (" ", {}, "blank"),
        ("Fine.", {"looped": True}, "looped"),
        ("", {"finite": False}, "not finite"),
        ("Fine.", {"truncated": True, "looped": True}, "cut off"),
        ("In two parts.", {"parts": 2}, ""),
    ],
)
def test_what_nobody_should_learn_from(text, matter, fault):
    assert fault_of(Translation((Alternative(text, 0.0, 0.0),), **matter)) == fault


def test_lines_that_are_no_pair_are_told_before_anything_is_translated(tmp_path, corpus):
    corpus.write_text(corpus.read_text() + "\tno source\none\ttwo\tthree\n")
    with pytest.raises(InputError, match="line 42"):
        distill("de-en", corpus, tmp_path / "out.tsv", device="cpu")
    assert not list(tmp_path.glob("out*"))


def test_a_tab_in_a_source_is_a_space(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"de": "Guten\\tTag.", "en": "x"}\n')
    found = distill("de-en", tmp_path / "a.jsonl", tmp_path / "out.tsv", device="cpu", source="de", target="en")
    ((source, _),) = pairs_in(tmp_path / "out.tsv")
    assert source == "Guten Tag."
    assert found.counts.tab == 1


KILLED = """
import sys, time
from manyheads.decoding import distillation

distillation.LOT = 8
distillation.distill("de-en", sys.argv[1], sys.argv[2], device="cpu", beam=1, seen=lambda done, of: time.sleep(done / 8))
"""


def test_after_a_kill_it_goes_on_to_the_same_bytes(tmp_path, corpus, small_lots):
    whole, out, part = tmp_path / "whole.tsv", tmp_path / "out.tsv", tmp_path / "out.tsv.part"
    distill("de-en", corpus, whole, device="cpu", beam=1)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, corpus, out], env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE
    )
    while process.poll() is None and not (part.exists() and part.read_bytes().count(b"\n") > 16):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not out.exists()
    with open(part, "ab") as file:  # as if it had been writing
        file.write(b"\tEs regnet.\tIt ra")
    found = distill("de-en", corpus, out, device="cpu", beam=1, resume=True)
    assert found.before >= 16
    assert found.before % 8 == 0
    assert found.pairs == 40
    assert out.read_bytes() == whole.read_bytes()
    assert not part.exists()
    with pytest.raises(OptionError, match=r"got .*out\.tsv, which is finished: there is no out\.tsv\.part"):
        distill("de-en", corpus, out, device="cpu", beam=1, resume=True)


def half_done(corpus, out, teacher="de-en", **options):
    """Stopped before the third lot."""

    def stop(done, of):
        if done == 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(teacher, corpus, out, device="cpu", seen=stop, **options)


def test_what_is_resumed_counts_what_was_kept_before(tmp_path, corpus, small_lots):
    half_done(corpus, tmp_path / "out.tsv", beam=1, max_length=1)
    found = distill("de-en", corpus, tmp_path / "out.tsv", device="cpu", beam=1, max_length=1, resume=True)
    assert (found.before, found.kept) == (16, {"cut off": 40})


def test_who_stops_it_is_told_how_much_is_kept(tmp_path, corpus, small_lots, monkeypatch, capsys):
    out, translate, lots = tmp_path / "out.tsv", Translator.translate_distinct, []

    def stopped_at_the_third(self, lines, search):
        lots.append(lines)
        if len(lots) == 3:
            raise KeyboardInterrupt
        return translate(self, lines, search)

    monkeypatch.setattr(Translator, "translate_distinct", stopped_at_the_third)
    assert status("data", "distill", "de-en", str(corpus), "--out", str(out), "--device", "cpu", "--beam", "1") != 0
    assert f"stopped; 16 finished pairs in {out}.part, --resume continues" in capsys.readouterr().err

    def stopped_at_the_start(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Translator, "load", stopped_at_the_start)
    words = ("--out", str(out), "--resume", "--device", "cpu", "--beam", "1")
    assert status("data", "distill", "de-en", str(corpus), *words) != 0
    assert f"stopped; 16 finished pairs in {out}.part, --resume continues" in capsys.readouterr().err


def test_it_goes_on_as_it_began_or_not_at_all(tmp_path, corpus, small_lots, translator):
    out = tmp_path / "out.tsv"
    half_done(corpus, out, beam=1)
    part = (tmp_path / "out.tsv.part").read_bytes()
    with pytest.raises(OptionError, match=r"must be continued with --resume, got .*out\.tsv\.part without it"):
        distill("de-en", corpus, out, device="cpu", beam=1)
    with pytest.raises(InputError, match="made with another search"):
        distill("de-en", corpus, out, device="cpu", beam=2, resume=True)
    translator.save(tmp_path / "rounded", store="fp16")
    with pytest.raises(InputError, match="made with another teacher"):
        distill(tmp_path / "rounded", corpus, out, device="cpu", beam=1, resume=True)
    with pytest.raises(InputError, match="made with another precision"):
        distill("de-en", corpus, out, device="cpu", precision="bf16", beam=1, resume=True)
    corpus.write_text(corpus.read_text() + "Noch einer.\tx\n")
    with pytest.raises(InputError, match="made with another corpus"):
        distill("de-en", corpus, out, device="cpu", beam=1, resume=True)
    assert (tmp_path / "out.tsv.part").read_bytes() == part
    (tmp_path / "out.tsv.part").write_text("what is this?\n")
    with pytest.raises(InputError, match="does not say what it is made from"):
        distill("de-en", corpus, out, device="cpu", beam=1, resume=True)


def test_several_teachers_are_one(tmp_path, corpus):
    """Of two models, each says something else, and both together something else again."""
    names = [tmp_path / "a", tmp_path / "b"]
    for seed, name in enumerate(names):
        model, vocabulary, recipe = load_model("de-en")
        torch.manual_seed(seed)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight), alpha=0.5 * weight.std().nan_to_num())
        save_model(name, model, vocabulary, recipe)
    distill(names, corpus, tmp_path / "both.tsv", device="cpu", beam=1, max_length=8)
    both = ensemble([Translator.load(name, "cpu") for name in names])
    sources = [source for source, _ in pairs_in(corpus)]
    found = list(both.translate(sources, both.search(beam=1, max_length=8)))
    wanted = [own if fault_of(one) else one.text for (_, own), one in zip(pairs_in(corpus), found, strict=True)]
    assert [target for _, target in pairs_in(tmp_path / "both.tsv")] == wanted
    alone = Translator.load(names[0], "cpu")
    assert [one.text for one in alone.translate(sources, alone.search(beam=1, max_length=8))] != [
        one.text for one in found
    ]


def test_what_is_read_is_not_written_over(tmp_path, corpus):
    with pytest.raises(OptionError, match="must be different files"):
        distill("de-en", corpus, corpus, device="cpu")
    with pytest.raises(OptionError, match="read from files, got /dev/null"):
        distill("de-en", "/dev/null", tmp_path / "out.tsv", device="cpu")
    with pytest.raises(OptionError, match="written as TSV"):
        distill("de-en", corpus, tmp_path / "out.jsonl", device="cpu")
    with pytest.raises(OptionError, match="written to a file, got /dev/null"):
        distill("de-en", corpus, "/dev/null", device="cpu")


def test_a_corpus_without_a_pair_is_refused(tmp_path):
    (tmp_path / "blank.tsv").write_text("\t\n\n\t\n")
    with pytest.raises(InputError, match="a pair to distil, got none"):
        distill("de-en", tmp_path / "blank.tsv", tmp_path / "out.tsv", device="cpu")
    assert not list(tmp_path.glob("out*"))


def test_a_corpus_that_changes_on_the_way_is_noticed(tmp_path, corpus, small_lots):
    lines = corpus.read_text().splitlines()

    def change(done, of):
        if done == 16:
            corpus.write_text("\n".join(lines[:-1]) + "\n")

    with pytest.raises(InputError, match="must not change while it is distilled"):
        distill("de-en", corpus, tmp_path / "out.tsv", device="cpu", beam=1, seen=change)
    assert not (tmp_path / "out.tsv").exists()
    assert (tmp_path / "out.tsv.part").exists()


def test_it_goes_on_with_the_same_sides_and_the_same_recipe(tmp_path, corpus, small_lots, translator):
    rows = [{"a": source, "b": source[::-1]} for source, _ in pairs_in(corpus)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    half_done(tmp_path / "c.jsonl", tmp_path / "out.tsv", beam=1, source="a", target="b")
    with pytest.raises(InputError, match="made with another corpus"):
        distill(
            "de-en",
            tmp_path / "c.jsonl",
            tmp_path / "out.tsv",
            device="cpu",
            beam=1,
            source="b",
            target="a",
            resume=True,
        )
    other = Translator(translator.model, translator.vocabulary, replace(translator.recipe, description="another"))
    for name, one in (("same", translator), ("other", other)):
        one.save(tmp_path / name)
    half_done(corpus, tmp_path / "more.tsv", teacher=tmp_path / "same", beam=1)
    with pytest.raises(InputError, match="made with another teacher"):
        distill(tmp_path / "other", corpus, tmp_path / "more.tsv", device="cpu", beam=1, resume=True)


def test_two_at_the_same_time_are_one_too_many(tmp_path):
    with PartFile(tmp_path / "out", {}, 2, bool) as first:
        with (
            pytest.raises(InputError, match="only one process may work on a file at a time"),
            PartFile(tmp_path / "out", {}, 2, bool),
        ):
            pass
        first.add(["a", "b"])
    with PartFile(tmp_path / "out", {}, 2, bool) as again:
        assert again.done == 2
        again.add(["c"])
        again.finish(str.upper)
    assert (tmp_path / "out").read_text() == "A\nB\nC\n"
    assert os.listdir(tmp_path) == ["out"]


def test_a_header_is_whole_or_not_there(tmp_path, monkeypatch):
    def full(path, content):
        path.with_name("half").write_bytes(content[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(partfile, "replace_file", full)
        with pytest.raises(SaveError, match="No space left"), PartFile(tmp_path / "out", {"a": 1}, 2, bool):
            pass
    with PartFile(tmp_path / "out", {"a": 1}, 2, bool) as part:
        assert part.done == 0


@pytest.mark.parametrize("line", [b"nonsense\n", b"\ta\n", b"why\ta\tb\n", b"\ta\tb\tc\n", b"\t\xff\xfe\tb\n", b"\n"])
def test_a_part_that_was_damaged_is_refused_before_any_work(tmp_path, line):
    """What is no pair would be a blank line of the corpus."""
    with PartFile(tmp_path / "out", {}, 2, is_line) as part:
        part.add(["\ta\tb", "looped\tc\td"])
    place = tmp_path / "out.part"
    header, first, _ = place.read_bytes().splitlines(keepends=True)
    place.write_bytes(header + first + line)
    with pytest.raises(InputError, match="is damaged, in line 3"), PartFile(tmp_path / "out", {}, 2, is_line):
        pass


def test_a_header_without_end_is_refused(tmp_path):
    (tmp_path / "out.part").write_bytes(b"[" * 100_000 + b"\n")
    with pytest.raises(InputError, match="does not say what it is made from"), PartFile(tmp_path / "out", {}, 2, bool):
        pass


def test_a_part_whose_first_line_has_no_end_is_damaged(tmp_path, corpus, small_lots):
    """What is added would stand in it, and be lost with it."""
    half_done(corpus, tmp_path / "out.tsv", beam=1)
    part = tmp_path / "out.tsv.part"
    part.write_bytes(part.read_bytes().split(b"\n")[0])
    with pytest.raises(InputError, match="does not say what it is made from"):
        distill("de-en", corpus, tmp_path / "out.tsv", device="cpu", beam=1, resume=True)
