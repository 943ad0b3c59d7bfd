"""A model with its tokenizers: text in, text out.

    translator = Translator.load("runs/de-en")          a run folder, or a bundled model: "de-en"
    translator("Ein Hund schläft.")                     one line
    translator(["Guten Tag.", "Bis morgen!"], beam=5)   several, in the order given

Lines are sorted by length internally and come out in the order they went in. What a line gives does not depend on what
else is in its batch, but for the rounding of sums.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import fields, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import overload

from manyheads.decoding.aligned import with_alignments
from manyheads.decoding.alignment import align_ids
from manyheads.decoding.batching import CHUNK, CHUNK_CHARACTERS, blocks, checked_text
from manyheads.decoding.control import blocks_with_wishes, make_script, unmet, wishes_of_parts
from manyheads.decoding.ensemble import Ensemble
from manyheads.decoding.forced import score_ids
from manyheads.decoding.hypothesis import Hypothesis
from manyheads.decoding.links import Alignment
from manyheads.decoding.options import Search
from manyheads.decoding.reading import Reading
from manyheads.decoding.rounding import load_rounded, read_again
from manyheads.decoding.script import Script, Scripts
from manyheads.decoding.searching import search_all
from manyheads.decoding.second_opinion import check_judges, check_to_choose, judges_of, reconsidered
from manyheads.decoding.textmodel import TextModel
from manyheads.decoding.translation import ForcedScore, Translation, as_translation
from manyheads.decoding.way import AtOnce
from manyheads.decoding.wishes import NO_WISHES, Wishes
from manyheads.decoding.words import word_characters
from manyheads.errors import OptionError, brief, did_you_mean
from manyheads.modelfolder import find_model, load_model, save_model
from manyheads.models.transformer import Transformer
from manyheads.recipe import Recipe
from manyheads.text.tokenizer import END
from manyheads.text.vocabulary import Vocabulary

__all__ = ["Translator"]

ON_A_GPU = 256
"""Lines computed together on a GPU by default: with 64, it spends more time waiting for steps than computing."""


class Translator(TextModel):
    """A model with its vocabulary, and how to search.

    If it has judges, their opinions count when hypotheses are compared.
    """

    judges: Sequence["Translator"] = ()

    def __init__(
        self, model: Transformer | Ensemble, vocabulary: Vocabulary, recipe: Recipe, folder: Path | None = None
    ) -> None:
        super().__init__(model, vocabulary, recipe)
        self.folder = folder  # where it was loaded from, if it was

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto", precision: str = "auto") -> "Translator":
        """Load a run folder, or a bundled model by its name. Loading runs no code from it, and checks every file.

        precision   "fp32", "bf16", "fp16" or, on a CPU, "int8" ("auto": fp16 on a GPU, fp32 elsewhere)
        """
        model, vocabulary, recipe = load_rounded(load_model, folder, device, precision)
        return cls(model, vocabulary, recipe, find_model(folder).absolute())

    @classmethod
    def of(cls, model: "str | Path | Translator", device: str, precision: str) -> "Translator":
        """A translator that is already loaded is returned as it is; any other is loaded from its folder."""
        if not isinstance(model, (str, Path, Translator)):
            raise OptionError(f"a model must be a folder or a Translator, got {brief(model)}")
        return model if isinstance(model, Translator) else cls.load(model, device, precision)

    def judged_by(self, *judges: "str | Path | Translator") -> "Translator":
        """The same translator with a second opinion: the judges, too, read what the beam holds at the end.

        The hypothesis that is best by all opinions is taken. Judges may cut text into other pieces. Those named by
        their folders are loaded to the device of this translator, in its precision.
        """
        those = judges_of(judges, self)
        check_judges(those, self)
        same = copy(self)
        same.judges = those
        return same

    def naming(self, source: str | None, target: str | None) -> "Translator":
        """The same translator, for files in which the sides have these names: keys of JSONL, languages of TMX and PO.

        None: as the recipe says.
        """
        if source is None and target is None:
            return self
        same = copy(self)
        same.recipe = replace(self.recipe, data=replace(self.recipe.data, source=source, target=target))
        return same

    def save(self, folder: str | Path, store: str = "fp32") -> None:
        """Save to a folder of its own, for others. As "fp16" or "int8" it takes a half or a quarter of the space.

        Weights that were rounded to translate are read again from where they came from: the precision does not matter.
        """
        if isinstance(self.model, Ensemble):
            raise OptionError(f"models must be saved one by one, got an ensemble of {len(self.model.members)}")
        if self.judges:
            raise OptionError("models must be saved one by one, got one with a judge")
        model = self.model if self.precision == "fp32" else read_again(self.model, self.folder)
        save_model(folder, model, self.vocabulary, self.recipe, store)

    @overload
    def __call__(self, text: str, *, wishes: Wishes = ..., **options: float) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], *, wishes: Wishes = ..., **options: float) -> list[str]: ...
    def __call__(self, text: str | Sequence[str], *, wishes: Wishes = NO_WISHES, **options: float) -> str | list[str]:
        """Translate a text (of several lines, if it has them), or each text in a list.

        The wishes apply to every line. Options are those of `Search`: beam, length_penalty, temperature, …
        """
        search = self.search(**options)
        if search.outputs > 1:
            raise OptionError(
                "a call returns only the best translation of each text", hint="translate([text], search) returns n_best"
            )
        if not isinstance(text, (str, Iterable)) or isinstance(text, bytes):
            raise OptionError(f"a translator takes a text or a list of texts, got {brief(text)}")
        if isinstance(text, str):
            return "\n".join(t.text for t in self.translate(text.split("\n"), search, wishes=wishes))
        texts = [checked_text(one).split("\n") for one in text]
        lines = (t.text for t in self.translate(chain.from_iterable(texts), search, wishes=wishes))
        return ["\n".join(islice(lines, len(one))) for one in texts]

    def search(self, **options: float) -> Search:
        """How the recipe says to search, with options changed.

        Unless a beam is given, it is wide enough for the number of outputs requested.
        """
        known = {field.name for field in fields(Search)}
        for name in sorted(options.keys() - known):
            if name in {field.name for field in fields(AtOnce)}:
                raise OptionError(
                    f"{name} is for models that write all tokens at once, got {options[name]} for one that writes token by token"
                )
            if name == "tokens":
                raise OptionError(f"tokens is for language models, got {options[name]} for one that translates")
            raise OptionError(f"{name!r} is not an option of a search", hint=did_you_mean(name, sorted(known)))
        decode, n_best = self.recipe.decode, options.get("n_best")
        beam = 1 if options.get("sample") else max(decode.beam, n_best if isinstance(n_best, int) else 1)
        defaults = {"beam": beam, "length_penalty": decode.length_penalty, "max_ratio": decode.max_ratio, "max_extra": decode.max_extra}  # fmt: skip
        if self.device.type == "cuda":
            defaults["batch"] = ON_A_GPU
        found = Search(**(defaults | options))  # type: ignore[arg-type]
        if self.judges:
            check_to_choose(found)
        return found

    def translate(
        self,
        lines: Iterable[str],
        search: Search | None = None,
        *,
        wishes: Wishes | Iterable[Wishes] = NO_WISHES,
        chunk: int = CHUNK,
        align: Reading | None = None,
    ) -> Iterator[Translation]:
        """Yield a translation for every line, in order; a blank line gives a blank one.

        `chunk` lines are read at a time. The wishes are the same for every line, or one for each. With `align`, which
        `reading` returns, every alternative says which words belong together.
        """
        if isinstance(lines, str):
            raise OptionError(
                "translate takes an iterable of lines, got a single text", hint="translator(text), or translate([text])"
            )
        search = search or self.search()
        for first, block, wished in blocks_with_wishes(blocks(lines, chunk, CHUNK_CHARACTERS), wishes):
            yield from self.translate_block(block, search, first, wished, align)

    def translate_distinct(self, lines: Sequence[str], search: Search | None = None) -> list[Translation]:
        """Return a translation for every line.

        A line that occurs several times, with several references, is translated once.
        """
        distinct = list(dict.fromkeys(lines))
        found = dict(zip(distinct, self.translate(distinct, search), strict=True))
        return [found[line] for line in lines]

    def translate_block(
        self, lines: list[str], search: Search, first: int, wishes: list[Wishes], align: Reading | None = None
    ) -> list[Translation]:
        """Search the lines part by part, and join what is found. `first` lines came before them."""
        parts = self.read(lines)
        sources = list(chain.from_iterable(parts))
        # The draws of a sample follow from the number of the line and, in it, of the part.
        numbers = [first + n + (part << 40) for n, line in enumerate(parts) for part in range(len(line))]
        asked = [self.wishes_of_parts(line, wish) for line, wish in zip(parts, wishes, strict=True)]
        scripts = [self.script(ids, wish, search) for ids, wish in zip(sources, chain(*asked), strict=True)]
        found = iter(self.find(sources, numbers, scripts, search))
        by_line = [list(islice(found, len(line))) for line in parts]
        decode = self.vocabulary.target.decode
        joined = [as_translation(hypotheses, search.outputs, decode) for hypotheses in by_line]
        told = [
            self.with_unmet(*line) if any(line[1]) else line[0] for line in zip(joined, asked, by_line, strict=True)
        ]
        return with_alignments(self, lines, parts, by_line, told, align) if align else told

    def find(
        self, sources: Sequence[list[int]], numbers: Sequence[int], scripts: Sequence[Script | None], search: Search
    ) -> list[list[Hypothesis]]:
        """The hypotheses of every source, the best first."""
        found = search_all(self.model, sources, numbers, scripts, search, self.longest)
        return reconsidered(self, self.judges, sources, found, search) if self.judges else found

    # ── wishes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def scripts(self) -> Scripts:
        return Scripts(self.vocabulary.target)

    def wishes_of_parts(self, parts: list[list[int]], wishes: Wishes) -> list[Wishes]:
        if not wishes:
            return [NO_WISHES] * len(parts)
        texts = [self.vocabulary.source.decode(ids) for ids in parts]
        return wishes_of_parts(wishes, texts, word_characters(self.vocabulary.source))

    def script(self, source: list[int], wishes: Wishes, search: Search) -> Script | None:
        if not wishes and not search.guided:
            return None
        if wishes and self.vocabulary.backwards:
            raise OptionError(
                "wishes need a model that writes from the start of the text, got a model that writes backwards"
            )
        return make_script(self.scripts, wishes, search, search.limit(len(source), self.longest), self.longest)

    def with_unmet(self, line: Translation, asked: list[Wishes], parts: list[list[Hypothesis]]) -> Translation:
        texts = [self.vocabulary.target.decode(hypotheses[0].ids) for hypotheses in parts]
        return replace(line, unmet=unmet(self.scripts, asked, texts, line.text))

    # ── given pairs ─────────────────────────────────────────────────────────────────────────────────────────────────

    def score(self, pairs: Sequence[tuple[str, str]], batch: int = 64) -> list[ForcedScore]:
        """log P(target | source) of every pair, in order.

        It is as exact as the weights: in half precision, to about three digits. `batch` sentences of 32 tokens are
        computed together, or as many tokens in longer or shorter ones.
        """
        sources, targets = self.encode_pairs(pairs)
        return score_ids(self.model, sources, [[*ids, END] for ids in targets], self.longest_scored, batch)

    def reading(self, head: str | None = None) -> Reading:
        """The weights that alignments are read from: those of `head`, or those that the recipe names."""
        chosen = head or self.recipe.decode.alignment
        if chosen is None:
            raise OptionError(
                "alignments need to know which attention to read, got a recipe without decode.alignment",
                hint="training sets it; otherwise give --align-head LAYER.HEAD, or find it with `find_reading(translator, pairs)`",
            )
        reading, config = Reading.parse(chosen), self.single.config
        for fault in reading.misfits(config.depth, config.heads):
            raise OptionError(fault)
        return reading

    def align(self, pairs: Sequence[tuple[str, str]], head: str | None = None, batch: int = 64) -> list[Alignment]:
        """Which words of given pairs belong together, in order, by the weights in the model's precision."""
        sources, targets = self.encode_pairs(pairs)
        most = self.longest_aligned
        cut = [max(len(s), len(t) + 1) > most for s, t in zip(sources, targets, strict=True)]
        return list(map(Alignment, align_ids(self, sources, targets, self.reading(head), batch), cut))
