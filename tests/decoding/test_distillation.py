"""A corpus as a teacher writes it: what it says, what it refuses to learn from, and what is left of it by a kill."""

import gzip
import os
import signal
import subprocess
import sys
import time

import pytest

from manyheads import Translator, distill
from manyheads.decoding import distillation
from manyheads.decoding.distillation import fault_of
from manyheads.decoding.translation import Alternative, Translation
from manyheads.errors import InputError, OptionError
from manyheads.modelfolder import bundled

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


def test_lines_that_are_no_pair_are_counted_before_anything_is_translated(tmp_path, corpus):
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


def half_done(corpus, out, **options):
    """Stopped before the third lot."""

    def stop(done, of):
        if done == 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill("de-en", corpus, out, device="cpu", seen=stop, **options)


def test_what_is_resumed_counts_what_was_kept_before(tmp_path, corpus, small_lots):
    half_done(corpus, tmp_path / "out.tsv", beam=1, max_length=1)
    found = distill("de-en", corpus, tmp_path / "out.tsv", device="cpu", beam=1, max_length=1, resume=True)
    assert (found.before, found.kept) == (16, {"cut off": 40})


def test_it_goes_on_as_it_began_or_not_at_all(tmp_path, corpus, small_lots, translator):
    out = tmp_path / "out.tsv"
    half_done(corpus, out, beam=1)
    part = (tmp_path / "out.tsv.part").read_bytes()
    with pytest.raises(OptionError, match=r"goes on with --resume, got .*out\.tsv\.part and no --resume"):
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
    """Twice the same model is that model."""
    once, twice = tmp_path / "once.tsv", tmp_path / "twice.tsv"
    distill("de-en", corpus, once, device="cpu", beam=1)
    distill([bundled("de-en"), bundled("de-en")], corpus, twice, device="cpu", beam=1)
    assert once.read_bytes() == twice.read_bytes()


def test_what_is_read_is_not_written_over(tmp_path, corpus):
    with pytest.raises(OptionError, match="must differ from what is read"):
        distill("de-en", corpus, corpus, device="cpu")
    with pytest.raises(OptionError, match="read from files, got /dev/null"):
        distill("de-en", "/dev/null", tmp_path / "out.tsv", device="cpu")
