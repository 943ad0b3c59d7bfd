"""A language model on one text: it reads a prompt and continues it.

Row t has read the pieces up to t and predicts the next: within the prompt, that shows how well the model would have
guessed it; after the prompt, it is what the model wrote.

T pieces that are read
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from manyheads.errors import OptionError, brief, choose
from manyheads.generation.writer import Writer
from manyheads.inspection.choices import read_choices
from manyheads.inspection.inspected import Written, check_finite, check_length, check_text
from manyheads.inspection.sides import read_side
from manyheads.inspection.switches import INSTEAD, Head, head_means, switched_off
from manyheads.inspection.trace import trace

__all__ = ["ContinuedText", "continue_text"]

TOKENS = 12
"""Tokens that a model writes after a prompt by default."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ContinuedText(Written):
    """What a language model did: `sides` has a target and no source, `attention` only the kind "decoder".

    given   how many pieces of the target it was given: the prompt, and the begin if there is one
    """

    writer: Writer
    given: int

    @property
    def text(self) -> str:
        """The prompt and its continuation."""
        return self.target.text

    @property
    def continuation(self) -> str:
        """What was written after the prompt."""
        return self.target.text[self.target.pieces[self.given - 1].end :]

    @property
    def score(self) -> float:
        """log P of the continuation, given its prompt. (`log_probability` is that of all pieces but the first.)"""
        return sum(choice.log_probability for choice in self.choices[self.given - 1 :])

    def log_probabilities(self, rows: int) -> list[float]:
        return self.writer.forced([self.ids("target")] * rows)

    def told(self) -> dict[str, Any]:
        return {"continuation": self.continuation, "given": self.given, "score": self.score, **super().told()}


def continue_text(
    writer: Writer,
    text: str,
    target: str | None = None,
    off: Collection[Head] = (),
    instead: str = "zero",
    tokens: int = TOKENS,
) -> ContinuedText:
    """Let a model continue a text, or write a given target after it.

    Without a target, the model writes up to `tokens` tokens, always the likeliest. A target is appended to the text as
    it is, followed by the end of texts if there is one. With an empty text, the target is a text that is only read.
    """
    if target is None:
        check_text(text)
    by_mean, model, prompt = choose("instead", instead, INSTEAD), writer.model, writer.read(text)

    def write() -> list[int]:
        return found_after(writer, text, tokens) if target is None else forced_after(writer, target)

    means = head_means(model, [], [*prompt, *write()][:-1]) if by_mean and off else None
    with switched_off(model, off, means):
        ids = [*prompt, *write()]
        check_length(len(ids), writer.longest)
        passed = check_finite(trace(model, [], ids[:-1]))
    return ContinuedText(
        model=model,
        folder=writer.folder,
        sides={"target": read_side(writer.tokenizer, ids)},
        tokenizers={"target": writer.tokenizer},
        typed={"target": text + (target or "")},
        trace=passed,
        off=tuple(off),
        means=means,
        choices=read_choices(writer.tokenizer, passed.logits, ids[1:]),
        forced=target is not None,
        writer=writer,
        given=len(prompt),
    )


def found_after(writer: Writer, prompt: str, tokens: int) -> list[int]:
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        raise OptionError(f"tokens must be 1 or more, got {brief(tokens)}")
    check_length(len(writer.read(prompt)) + 1, writer.longest)
    return [token.id for token in writer.write(prompt, temperature=0, tokens=tokens)]


def forced_after(writer: Writer, target: str) -> list[int]:
    """The ids of a given target, with the end of texts if there is one."""
    return [*writer.tokenizer.encode([target])[0], *writer.end[:1]]
