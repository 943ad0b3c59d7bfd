"""Pairs from TMX (1.1 to 1.4b), the XML of translation memories, read as a stream by expat.

A unit gives one pair: the first text in each of the two languages. The recipe names these; if it does not, the header's
`srclang` is the source and the only other language is the target. "en" matches "en-US".

Nothing is fetched, and entities that a file defines are refused: a few lines of them can become gigabytes.
"""

from array import array
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO
from xml.parsers import expat

from manyheads.errors import InputError, nearest
from manyheads.text.lines import MAX_LINE, open_text
from manyheads.text.rows import HOW_TO_NAME, ReadOptions, Row, segment_row

__all__ = ["read_tmx"]

CODES = {"bpt", "ept", "it", "ph", "ut"}
"""Elements whose content is formatting of some program, not text."""

CHUNK = 1 << 16
LONGEST_TAG = 4 * MAX_LINE
DEEPEST = 100
ALL = "*all*"

Languages = tuple[str, str]


def read_tmx(path: str, reading: ReadOptions) -> Iterator[Row]:
    units = Units(path, (reading.source, reading.target) if reading.source and reading.target else None)
    with open_text(path, utf16=True) as file:
        yield from units.read(file)
    if fault := units.language_fault():
        yield Row(1, None, fault=fault)


class Unit:
    """What has been read of a unit: how many texts there are in each wanted language, and the first of them.

    Until the wanted languages are known, every language is kept, under its name without a region: languages that the
    file itself determines are always named so.
    """

    def __init__(self) -> None:
        self.languages: set[str] = set()
        self.texts: Counter[str] = Counter()
        self.first: dict[str, str] = {}

    def add(self, tag: str, text: str, wanted: Languages | None) -> None:
        self.languages.add(language_of(tag))
        for name in [name for name in wanted if matches(name, tag)] if wanted else [language_of(tag)]:
            self.texts[name] += 1
            self.first.setdefault(name, text)


class Units:
    """The state of a parser on its way through a file, and the rows that are ready."""

    def __init__(self, path: str, languages: Languages | None) -> None:
        self.path, self.wanted = path, languages
        self.named = languages is not None
        self.declared = ALL  # header's srclang
        self.found: Counter[str] = Counter()
        self.ready: list[Row] = []
        self.depth = self.hidden = self.line = self.pairs = 0
        self.unit = Unit()
        self.early = array("Q")  # lines of units that ended before the second language was known
        self.language = ""
        self.segment: list[str] | None = None
        self.size = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text
        self.parser.EntityDeclHandler = self.refuse_entity
        self.parser.SkippedEntityHandler = self.refuse_skipped

    def read(self, file: BinaryIO) -> Iterator[Row]:
        fed = 0
        try:
            while chunk := file.read(CHUNK):
                fed += len(chunk)
                self.parser.Parse(chunk, False)
                if fed - self.parser.CurrentByteIndex > LONGEST_TAG:
                    raise self.fault(f"must have tags of at most {LONGEST_TAG:,} bytes", "a longer one")
                yield from self.ready
                self.ready.clear()
            self.parser.Parse(b"", True)
        except (expat.ExpatError, LookupError, ValueError) as error:  # an unknown encoding is a LookupError
            if isinstance(error, InputError):
                raise
            raise self.fault("must be well-formed XML", str(error).partition(": line ")[0]) from None
        yield from self.ready

    def fault(self, rule: str, got: str, hint: str | None = None) -> InputError:
        return InputError(f"a TMX file {rule}, got {self.path}, line {self.parser.CurrentLineNumber}: {got}", hint)

    # ── what expat calls ──

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth == 1 and name != "tmx":
            raise self.fault("must start with <tmx>", f"<{name[:40]}>")
        if self.depth > DEEPEST:
            raise self.fault(f"must have elements at most {DEEPEST} deep", "more")
        if self.segment is not None:
            self.hidden += bool(self.hidden) or name in CODES
        elif name == "header":
            self.declared = attributes.get("srclang", ALL)
        elif name == "tu":
            self.unit, self.line = Unit(), self.parser.CurrentLineNumber
        elif name == "tuv":
            self.language = attributes.get("xml:lang", attributes.get("lang", ""))
        elif name == "seg":
            self.segment, self.size, self.hidden = [], 0, 0

    def text(self, text: str) -> None:
        if self.segment is not None and not self.hidden and self.size <= MAX_LINE:
            self.size += len(text)
            self.segment.append(text)

    def end(self, name: str) -> None:
        self.depth -= 1
        if name == "seg" and self.segment is not None:
            self.unit.add(self.language, "".join(self.segment), self.wanted)
            self.segment = None
        elif self.segment is not None:
            self.hidden = max(0, self.hidden - 1)
        elif name == "tu":
            self.end_unit()

    def refuse_entity(self, name: str, *rest: object) -> None:
        raise self.fault("must declare no entities", f"{name[:40]!r}", "write the characters themselves, or &#160;")

    def refuse_skipped(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:  # parameter entities belong to the DTD alone
            raise self.fault(
                "must only use the entities of XML", f"&{name[:40]};", "write the character itself, or &#160;"
            )

    # ── units ──

    def end_unit(self) -> None:
        self.found.update(self.unit.languages)
        self.wanted = self.wanted or self.two_languages()
        if self.wanted is None:
            self.early.append(self.line)
            return
        self.ready += [Row(line, None, ("incomplete",)) for line in self.early]
        del self.early[:]
        source, target = map(self.unit.first.get, self.wanted)
        if source is None or target is None:
            self.ready.append(Row(self.line, None, ("incomplete",)))
            return
        self.pairs += 1
        self.ready.append(segment_row(self.line, source, target))
        alternatives = sum(self.unit.texts[wanted] - 1 for wanted in self.wanted)
        self.ready += [Row(self.line, None, ("alternatives",))] * alternatives

    def two_languages(self) -> Languages | None:
        """The header's language and the only other one, as soon as both have been seen."""
        source = language_of(self.declared)
        others = [language for language in self.found if language != source]
        return (source, others[0]) if source in self.found and len(others) == 1 else None

    def language_fault(self) -> InputError | None:
        """What is wrong with the languages, which shows only at the end of the file."""
        listed = ", ".join(f"{language!r} ({count:,})" for language, count in sorted(self.found.items()))
        got = f"got {self.path}: {listed or 'no unit at all'}"
        if self.named and self.wanted and not self.pairs and self.found:
            missing = [name for name in self.wanted if language_of(name) not in self.found]
            near = nearest(missing[0].lower(), self.found) if missing else None
            return InputError(f"a TMX file must have units in {self.wanted[0]!r} and {self.wanted[1]!r}, {got}", near)
        if not self.named and self.found and (self.wanted is None or len(self.found) > 2):
            return InputError(
                f"a TMX file whose languages are not named must have exactly two, one of them its srclang, {got}",
                hint=f"name them {HOW_TO_NAME}",
            )
        return None


def language_of(tag: str) -> str:
    """The language of a tag, without region and script: "en" for "en-US"."""
    return tag.lower().replace("_", "-").partition("-")[0]


def matches(wanted: str, tag: str) -> bool:
    wanted, tag = (name.lower().replace("_", "-") for name in (wanted, tag))
    return tag == wanted or tag.startswith(f"{wanted}-")
