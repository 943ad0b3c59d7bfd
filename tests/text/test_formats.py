"""Whatever the format, the pairs that were written come back; what is wrong is named by file and line, or counted."""

import gzip
import json
import random
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.errors import InputError
from manyheads.recipe import DataConfig
from manyheads.text.corpus import Corpus, Counts, ReadOptions, check_paths, read_every_pair, read_pairs
from manyheads.text.lines import MAX_LINE
from manyheads.text.tmx import Unit

NAMED = ReadOptions("de", "en")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def read(name, reading=None, reader=read_pairs):
    counts = Counts()
    return list(reader(Corpus((name,), reading=reading or ReadOptions()), counts)), counts


def pairs(name, content, reading=None):
    return [pair for _, pair in read(write(name, content), reading)[0]]


def refusal(name, content, reading=None):
    with pytest.raises(InputError) as error:
        read(write(name, content), reading)
    return error.value


# ── there and back ──────────────────────────────────────────────────────────────────────────────────────────────────

# What XML can hold and every format keeps: no control characters, tabs or newlines, nothing but blanks.
letters = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff\u2028\u2029")
sides = st.text(st.one_of(letters, st.sampled_from("<>&\"\\'#%äß ")), min_size=1, max_size=12).filter(str.strip)


def as_tsv(pairs):
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def as_jsonl(pairs, ascii_only=False):
    return "".join(json.dumps({"source": s, "target": t}, ensure_ascii=ascii_only) + "\n" for s, t in pairs)


def as_translations(pairs):
    return "".join(json.dumps({"id": 3, "translation": {"de": s, "en": t}}) + "\n" for s, t in pairs)


def as_tmx(pairs, tags=("de-AT", "EN"), attribute="xml:lang", declared="de-DE"):
    units = "".join(
        "<tu>" + "".join(
            f"<tuv {attribute}={quoteattr(tag)}><seg>{escape(text)}</seg></tuv>" for tag, text in zip(tags, pair, strict=True)
        ) + "</tu>\n"
        for pair in pairs
    )  # fmt: skip
    doctype = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">'
    return f'{doctype}\n<tmx version="1.4"><header srclang={quoteattr(declared)}/><body>\n{units}</body></tmx>'


def as_po(pairs):
    def quoted(text):
        text = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text[:3]}"\n"{text[3:]}"' if text[:3].count("\\") == 0 else f'"{text}"'

    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    return head + "\n".join(f"# a note\nmsgid {quoted(s)}\nmsgstr {quoted(t)}\n" for s, t in pairs)


FORMATS = {
    "a.tsv": (as_tsv, None),
    "a.jsonl": (as_jsonl, None),
    "b.jsonl": (as_translations, NAMED),
    "c.JSONL": (lambda pairs: as_jsonl(pairs, True), None),
    "a.tmx": (as_tmx, None),
    "b.tmx": (as_tmx, NAMED),
    "c.tmx": (lambda pairs: as_tmx(pairs, ("de", "en-US"), "lang", "*all*"), NAMED),
    "a.po": (as_po, None),
}
PACKINGS = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor(write_checksum=True).compress}


@settings(max_examples=40)
@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=6), st.sampled_from(sorted(PACKINGS)))
@pytest.mark.parametrize("name", FORMATS)
def test_what_was_written_comes_back(tmp_path_factory, name, pairs, packing):
    writer, reading = FORMATS[name]
    path = tmp_path_factory.getbasetemp() / (name + packing)
    path.write_bytes(PACKINGS[packing](writer(pairs).encode()))
    (corpus,) = check_paths([str(path)], "--train", reading or ReadOptions())
    counts = Counts()
    found = [pair for _, pair in read_pairs(corpus, counts)]
    assert found == pairs
    assert counts.pairs == len(pairs)
    assert counts.sentences() == []


@settings(max_examples=150)
@given(st.integers(0, 2**32))
@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_refused_or_read_and_never_crashes(tmp_path_factory, name, seed):
    writer, reading = FORMATS[name]
    rng = random.Random(seed)
    content = bytearray(writer([("Gut & schön", 'He said "no"'), ("ü\\n", "<b>"), ("c", "d")]).encode())
    for _ in range(rng.randint(1, 8)):
        place = rng.randrange(len(content) + 1)
        match rng.randrange(3):
            case 0:
                content[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                del content[place : place + rng.randint(1, 20)]
            case 2:
                content[place:place] = rng.choice([b'"', b"<", b"&", b"\xff", b"\n", b"{" * 5, b"msgid", b"\0" * 9])
    path = tmp_path_factory.getbasetemp() / f"damaged-{name}"
    path.write_bytes(content)
    for bad_lines in ("error", "skip", "replace"):
        named = reading or ReadOptions()
        try:
            found, _ = read(str(path), ReadOptions(named.source, named.target, bad_lines))
        except InputError:
            continue
        assert all("\n" not in side and side.strip() for _, pair in found for side in pair)


# ── JSONL ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "reading", "complaint", "hint"),
    [
        ("[1]", None, "a line of a JSONL file must be an object, got f.jsonl, line 2: [1]", None),
        ("{", None, "a line of a JSONL file must be JSON, got f.jsonl, line 2: Expecting property name", None),
        ("[" * 100_000, None, "must be a plain object, got f.jsonl, line 2: too deep", None),
        ('{"source": ' + "9" * 5000 + "}", None, "must be JSON, got f.jsonl, line 2", None),
        ('{"sorce": "a", "target": "x"}', None, "must have the key 'source', got f.jsonl, line 2: ['sorce', 'target']", "did you mean 'sorce'?"),
        ('{"translation": {"de": "a", "en": "x"}}', None, "must have the key 'source', got f.jsonl, line 2: ['de', 'en']", "--set data.source=… --set data.target=…"),
        ('{"de": "a", "fr": "x"}', NAMED, "must have the key 'en', got f.jsonl, line 2: ['de', 'fr']", None),
        ('{"source": "a", "target": null}', None, "the side 'target' must be text, got f.jsonl, line 2: None", None),
        ('{"source": "a\\ud800", "target": "x"}', None, "got f.jsonl, line 2: half of a surrogate pair in 'source', at 1", None),
        (b'{"source": "\xe9"}', None, "a text must be UTF-8, got f.jsonl, line 2: byte 0xe9 at column 13", "WINDOWS-1252"),
    ],
)  # fmt: skip
def test_a_bad_line_of_jsonl(here, line, reading, complaint, hint):
    good = b'{"source": "a", "target": "x", "de": "a", "en": "x"}\n'
    line = line if isinstance(line, bytes) else line.encode()
    error = refusal("f.jsonl", good + line + b"\n" + good, reading)
    assert complaint in error.message
    assert hint is None or hint in error.hint
    skip = ReadOptions(*((reading.source, reading.target) if reading else ()), bad_lines="skip")
    rows, counts = read("f.jsonl", skip, read_every_pair)
    assert [(line, pair) for line, pair in rows] == [(1, ("a", "x")), (2, None), (3, ("a", "x"))]
    assert counts.left_out == counts.no_pair + counts.not_utf8 == 1


def test_newlines_in_segments_become_spaces(here):
    lines = [
        {"source": "a \r\n\n b", "target": "x\n"},
        {"source": "\n", "target": "x"},
        {"source": "a\tb", "target": "y"},
    ]
    found, counts = read(write("f.jsonl", "\n".join(map(json.dumps, lines))))
    assert found == [(1, ("a b", "x")), (3, ("a\tb", "y"))]
    assert (counts.newline, counts.blank) == (1, 1)
    assert counts.sentences() == [
        "1 blank on one side, left out (the first: f.jsonl, line 2)",
        "1 with a newline inside, kept with a space instead (the first: f.jsonl, line 1)",
    ]


@pytest.mark.parametrize("name", ["f.jsonl", "f.tmx", "f.po"])
def test_a_side_of_more_than_a_megabyte_is_counted(here, name):
    long = "ä" * (MAX_LINE // 2 + 1)
    content = FORMATS[f"a{name[1:]}"][0]([(long[2:], "x"), (long, "x"), ("a", "y")])
    found, counts = read(write(name, content))
    assert [len(source) for _, (source, _) in found] == [len(long) - 2, 1]
    assert counts.too_long == 1


# ── TMX ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def tmx(body, declared="de"):
    return f'<?xml version="1.0"?>\n<tmx version="1.4">\n<header srclang="{declared}"/>\n<body>{body}</body></tmx>'


def unit(**texts):
    return "<tu>" + "".join(f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in texts.items()) + "</tu>\n"


def test_codes_of_programs_are_no_text(here):
    coded = (
        'Ein <bpt i="1">&lt;b&gt;</bpt><hi>guter</hi><ept i="1">&lt;/b&gt;</ept> <ph><sub>x</sub>y</ph>Tag<it>z</it>'
        "<ut>{</ut> &#228;&amp;ö<!-- no --><![CDATA[<]]>"
    )
    assert pairs("f.tmx", tmx(unit(de=coded, en="x"))) == [("Ein guter Tag ä&ö<", "x")]


def test_units_without_both_languages_and_with_several_texts_are_counted(here):
    body = unit(de="a", en="x") + unit(de="b") + "<tu/>" + unit(EN="y", de="c", en_GB="z", fr="w")
    found, counts = read(write("f.tmx", tmx(body)), NAMED)
    assert found == [(4, ("a", "x")), (6, ("c", "y"))]
    assert (counts.incomplete, counts.alternatives) == (2, 1)


def test_the_header_tells_the_source_if_there_are_two_languages(here):
    body = unit(fr="un") + unit(fr="deux", de="zwei") + unit(de="drei", fr="trois")
    assert pairs("f.tmx", tmx(body, "de-DE")) == [("zwei", "deux"), ("drei", "trois")]
    assert pairs("f.tmx", tmx(body, "FR")) == [("deux", "zwei"), ("trois", "drei")]
    for declared in ("*all*", "it"):
        error = refusal("f.tmx", tmx(body, declared))
        assert error.message == (
            "a TMX file whose languages are not named must have exactly two, one of them its srclang, "
            "got f.tmx: 'de' (2), 'fr' (3)"
        )
        assert "data.source" in error.hint


def test_units_before_the_second_language_are_counted(here):
    """Two languages that the file tells are read as two that are named: the first lines may be in one alone."""
    body = (
        unit(fr="un")
        + "<tu/>\n"
        + unit(fr="deux", FR="deux!")
        + unit(fr="trois", de="drei", fr_CA="3")
        + unit(de="vier")
    )
    for reading in (None, ReadOptions("de", "fr")):
        found, counts = read(write("f.tmx", tmx(body)), reading)
        assert found == [(7, ("drei", "trois"))]
        assert (counts.incomplete, counts.alternatives) == (4, 1)
        assert "(the first: f.tmx, line 4)" in " ".join(counts.sentences())


def test_a_unit_holds_the_first_text_of_each_language_alone():
    for wanted in (None, ("de", "en")):
        held = Unit()
        for n in range(1_000):
            for tag in ("de", "de-AT", "EN_us", "en"):
                held.add(tag, f"{tag} {n}", wanted)
        assert held.first == {"de": "de 0", "en": "EN_us 0"}
        assert held.texts == {"de": 2_000, "en": 2_000}


def test_a_third_language_is_refused_unless_two_are_named(here):
    body = unit(de="a", en="x") + unit(de="b", en="y", fr="z")
    assert "'de' (2), 'en' (2), 'fr' (1)" in refusal("f.tmx", tmx(body)).message
    assert pairs("f.tmx", tmx(body), ReadOptions("en", "fr")) == [("y", "z")]
    error = refusal("f.tmx", tmx(body), ReadOptions("de", "enn"))
    assert error.message == "a TMX file must have units in 'de' and 'enn', got f.tmx: 'de' (2), 'en' (2), 'fr' (1)"
    assert error.hint == "did you mean 'en'?"


def test_regions_are_told_apart_if_they_are_named(here):
    body = '<tu><tuv xml:lang="pt-BR"><seg>a</seg></tuv><tuv xml:lang="PT_pt"><seg>x</seg></tuv></tu>'
    assert pairs("f.tmx", tmx(body), ReadOptions("pt-PT", "pt-BR")) == [("x", "a")]
    assert "'pt' (1)" in refusal("f.tmx", tmx(body, "pt-BR")).message


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
@pytest.mark.parametrize("packing", PACKINGS)
def test_a_tmx_file_says_its_encoding(here, encoding, packing):
    name = encoding.removesuffix("-sig")
    text = tmx(unit(de="Grüße", en="x")).replace('"1.0"', f'"1.0" encoding="{name}"')
    assert pairs("f.tmx" + packing, PACKINGS[packing](text.encode(encoding))) == [("Grüße", "x")]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (tmx("<tu><tuv>"), "must be well-formed XML, got f.tmx, line 4: mismatched tag"),
        ("<tmx/><tmx/>", "must be well-formed XML, got f.tmx, line 1: junk after document element"),
        ("", "must be well-formed XML, got f.tmx, line 1: no element found"),
        ("<html/>", "must start with <tmx>, got f.tmx, line 1: <html>"),
        ('<!DOCTYPE tmx [<!ENTITY a "aaaa">]><tmx/>', "must declare no entities, got f.tmx, line 1: 'a'"),
        ('<!DOCTYPE tmx [<!ENTITY a SYSTEM "/etc/passwd">]><tmx/>', "must declare no entities"),
        ('<!DOCTYPE tmx SYSTEM "t.dtd"><tmx><body><tu>&nbsp;</tu></body></tmx>', "must only use the entities of XML, got f.tmx, line 1: &nbsp;"),
        ("<tmx>&nbsp;</tmx>", "must be well-formed XML, got f.tmx, line 1: undefined entity"),
        ("<tmx>" + "<a>" * 200, "must have elements at most 100 deep"),
        ('<tmx a="' + "x" * 5_000_000 + '"/>', "must have tags of at most 4,194,304 bytes"),
        ('<?xml version="1.0" encoding="klingon"?><tmx/>', "must be well-formed XML, got f.tmx"),
        (b"<tmx>\xff</tmx>", "must be well-formed XML, got f.tmx, line 1: not well-formed (invalid token)"),
    ],
)  # fmt: skip
def test_xml_that_is_refused(here, content, complaint):
    assert complaint in refusal("f.tmx", content).message


# ── PO ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

HEADER = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset=utf-8\\n"\n\n'


def test_entries_of_all_kinds(here):
    found, counts = read(
        write(
            "f.po",
            HEADER
            + """#: a.c:1
#, c-format
msgctxt "menu"
msgid "Open %s"
msgstr "Öffne %s"
msgid "no blank line before"
msgstr "keine Leerzeile davor"

msgid ""
"two "
"parts\\n"
msgstr "zwei\\tTeile \\303\\244\\x21\\n"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"
msgstr[2] "%d Dateien!"

msgid "%d hour"
msgid_plural "%d hours"
msgstr[0] "%d 時間"

#, fuzzy, c-format
#| msgid "before"
msgid "guess"
msgstr "Raten"

msgid "nothing"
msgstr ""

#~ msgid "old"
#~ msgid_plural "olds"
#~ msgstr[0] "alt"

#~ msgid "older"
#~ msgstr "älter"
""",
        )
    )
    assert found == [
        (8, ("Open %s", "Öffne %s")),
        (11, ("no blank line before", "keine Leerzeile davor")),
        (14, ("two parts", "zwei\tTeile ä!")),
        (19, ("%d file", "%d Datei")),
        (19, ("%d files", "%d Dateien")),
        (19, ("%d files", "%d Dateien!")),
        (25, ("%d hours", "%d 時間")),
    ]
    assert (counts.fuzzy, counts.untranslated, counts.obsolete, counts.newline) == (1, 1, 2, 1)
    assert "1 marked fuzzy, left out (the first: f.po, line 31)" in counts.sentences()


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("msgid a\n", 'must be a comment, a keyword and "text", or "text", got f.po, line 7'),
        ('msgid "a"\nmsgstr "x\n', "got f.po, line 8"),
        ('"a"\n', "got f.po, line 7"),
        ('msgid "a"\n', "an entry of a PO file must have msgid and msgstr, got f.po, line 7"),
        ('msgstr "x"\n', "an entry of a PO file must have msgid and msgstr, got f.po, line 7"),
        ('msgid "a"\nmsgid_plural "b"\nmsgid_plural "c"\n', "must have each keyword once, got f.po, line 9: msgid_plural again"),
        (b'msgid "a"\nmsgstr "\xe9"\n', "a text must be UTF-8, got f.po, line 8: byte 0xe9 at column 9"),
    ],
)  # fmt: skip
def test_a_bad_entry_of_a_po_file(here, entry, complaint):
    entry = entry if isinstance(entry, bytes) else entry.encode()
    content = HEADER.encode() + b"\n" + entry + b'\nmsgid "b"\nmsgstr "y"\n'
    assert complaint in refusal("f.po", content).message
    found, counts = read("f.po", ReadOptions(bad_lines="skip"))
    assert [pair for _, pair in found] == [("b", "y")]
    assert counts.left_out == 1


def test_a_flag_above_an_obsolete_entry_is_its_own(here):
    content = '#, fuzzy\n#~ msgid "old"\n#~ msgstr "alt"\n\nmsgid "a"\nmsgstr "x"\n'
    found, counts = read(write("f.po", content))
    assert (found, counts.obsolete, counts.fuzzy) == ([(5, ("a", "x"))], 1, 0)


LONG = "x" * (MAX_LINE + 1)


def test_a_long_comment_spoils_no_entry(here):
    content = f'msgid "a"\nmsgstr "x"\n\n# {LONG}\n# {LONG}\nmsgid "b"\nmsgstr "y"\n\n# {LONG}\n'
    found, counts = read(write("f.po", content))
    assert (found, counts.left_out) == ([(1, ("a", "x")), (6, ("b", "y"))], 0)


@pytest.mark.parametrize(
    "entry",
    [
        'msgid "LONG"\nmsgstr "x"\n',
        'msgid "LONG"\n"more"\nmsgstr "x"\n',
        'msgid ""\n"LONG"\nmsgstr "x"\n',
        'msgid "a"\nmsgstr "LONG"\n',
        'msgid "LONG"\nmsgid_plural "b"\nmsgstr[0] "x"\n',
    ],
)
def test_a_long_string_of_an_entry_is_counted(here, entry):
    entry = entry.replace("LONG", LONG)
    found, counts = read(write("f.po", f'{HEADER}{entry}\nmsgid "b"\nmsgstr "y"\n'))
    assert [pair for _, pair in found] == [("b", "y")]
    assert (counts.too_long, counts.left_out) == (1, 1)


def test_a_po_file_in_another_charset_is_refused(here):
    content = HEADER.replace("utf-8", "ISO-8859-1").encode() + b'msgid "a"\nmsgstr "\xe9"\n'
    error = refusal("f.po", content, ReadOptions(bad_lines="skip"))
    assert error.message == "a PO file must be in UTF-8, got f.po: its header says charset=ISO-8859-1"
    assert "iconv -f ISO-8859-1" in error.hint
    assert pairs("f.po", HEADER.replace("utf-8", "CHARSET") + 'msgid "a"\nmsgstr "ä"\n') == [("a", "ä")]


# ── bad lines ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_bad_lines_are_skipped_or_replaced_and_counted(here):
    content = b"a\tx\nb\t\xff\nc\nd\te\tf\ng\ty\n"
    assert refusal("f.tsv", content).message.startswith("f.tsv: 3 faults")
    found, counts = read("f.tsv", ReadOptions(bad_lines="skip"))
    assert found == [(1, ("a", "x")), (5, ("g", "y"))]
    assert counts.sentences() == [
        "1 not UTF-8, left out (the first: f.tsv, line 2)",
        "2 not a pair of texts, left out (the first: f.tsv, line 3)",
    ]
    found, counts = read("f.tsv", ReadOptions(bad_lines="replace"))
    assert found == [(1, ("a", "x")), (2, ("b", "\ufffd")), (5, ("g", "y"))]
    assert (counts.replaced, counts.no_pair, counts.not_utf8) == (1, 2, 0)


def test_bad_lines_of_two_files_and_what_skipping_cannot_mend(here):
    write("de", b"\xffa\nb\nc\n")
    write("en", b"x\n\xffy\nz\n")
    counts = Counts()
    rows = list(read_every_pair(Corpus(("de", "en"), reading=ReadOptions(bad_lines="skip")), counts))
    assert rows == [(1, None), (2, None), (3, ("c", "z"))]
    rows = list(read_every_pair(Corpus(("de", "en"), reading=ReadOptions(bad_lines="replace")), counts))
    assert rows == [(1, ("\ufffda", "x")), (2, ("b", "\ufffdy")), (3, ("c", "z"))]
    write("en", b"x\n")
    with pytest.raises(InputError, match="the same number of lines, got 3 in de and 1 in en"):
        list(read_every_pair(Corpus(("de", "en"), reading=ReadOptions(bad_lines="skip")), counts))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
@pytest.mark.parametrize("packing", PACKINGS)
def test_utf16_is_called_by_its_name_with_and_without_a_byte_order_mark(here, encoding, packing):
    name = write("f.tsv" + packing, PACKINGS[packing]("Guten Tag\tGood day\nGrüße\tRegards\n".encode(encoding)))
    with pytest.raises(InputError) as error:
        read(name)
    assert "it looks like UTF-16" in error.value.message
    assert error.value.hint.startswith(f"iconv -f UTF-16 -t UTF-8 {name}")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_has_nothing_that_could_be_replaced(here, encoding):
    name = write("f.tsv", "Guten Tag\tGood day\nGrüße\tRegards\n".encode(encoding))
    found, counts = read(name, ReadOptions(bad_lines="replace"))
    assert found == []
    assert counts.not_utf8 == 2


def test_the_recipe_says_how_files_are_read():
    assert DataConfig(source="de", target="en", bad_lines="skip").reading == ReadOptions("de", "en", "skip")
    with pytest.raises(ValueError, match="both sides are named, and differently, or neither is"):
        DataConfig(source="de")
    with pytest.raises(ValueError, match="did you mean 'skip'"):
        DataConfig(bad_lines="skipp")


def test_po_is_turned_round_if_its_translations_are_the_source(tmp_path):
    path = tmp_path / "a.po"
    path.write_text(
        'msgid ""\nmsgstr "Language: de_AT\\n"\n\nmsgid "Open"\nmsgstr "Öffnen"\n\nmsgid "Close"\nmsgstr "Zu"\n'
    )
    assert [pair for _, pair in read(str(path))[0]] == [("Open", "Öffnen"), ("Close", "Zu")]
    assert [pair for _, pair in read(str(path), ReadOptions("en", "de"))[0]] == [("Open", "Öffnen"), ("Close", "Zu")]
    assert [pair for _, pair in read(str(path), ReadOptions("de", "en"))[0]] == [("Öffnen", "Open"), ("Zu", "Close")]


def test_a_segment_in_a_code_hides_no_other_unit(tmp_path):
    path, unit = (
        tmp_path / "a.tmx",
        '<tu><tuv xml:lang="de"><seg>{}</seg></tuv><tuv xml:lang="en"><seg>B</seg></tuv></tu>',
    )
    units = unit.format("A <ph>x<sub><seg>y</seg></sub></ph>") + unit.format("Drei")
    path.write_text(f'<tmx version="1.4"><header srclang="de"/><body>{units}</body></tmx>')
    assert read(str(path))[0][-1][1] == ("Drei", "B")
