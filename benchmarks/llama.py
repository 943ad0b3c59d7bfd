"""Hugging Face's Llama, trained by the loop that people write around it.

The loop has padded batches, a mask, AdamW, autocast, and nothing else. The model computes, number for number, what a
language model of ours with rotary positions, SwiGLU, RMS norms and no biases does; only its initial weights are its
own. Its only dropout is that of the attention weights. Where a plain loop may be written in several ways, it is written
in the one that is kind to it: batches of similar lengths, made ahead by a thread; a fused optimizer that spares
embeddings and norms the weight decay; losses that nobody waits for.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.interop.llama import config_of
from manyheads.machine import Machine
from manyheads.models.config import LanguageModelConfig
from manyheads.recipe import TrainConfig
from manyheads.tasks.texts import count_tokens
from manyheads.text.batches import BatchPlan
from manyheads.text.shards import Rows
from manyheads.text.tokenizer import BEGIN, END, PADDING, Tokenizer
from manyheads.training.loop import warmup_of
from manyheads.training.optimizer import build_optimizer
from manyheads.training.prefetch import prefetch
from manyheads.training.schedule import rate_at

__all__ = ["SETTLED", "Llama", "Run", "fit_llama", "pad_for_llama", "rows_of"]

SETTLED = 20
"""Steps after which speed is measured: by then kernels are chosen, and compiled if they are to be."""

UNSEEN = -100
"""The label of places where nothing is to be predicted."""


class Llama(nn.Module):
    """LlamaForCausalLM with random weights, and attention by SDPA, which is its default.

    It has the methods by which a language model of ours is scored: `states` and `logits`.
    """

    def __init__(self, config: LanguageModelConfig, tokenizer: Tokenizer) -> None:
        super().__init__()
        from transformers import LlamaConfig, LlamaForCausalLM

        self.config = config
        self.body = LlamaForCausalLM(LlamaConfig(**config_of(config, tokenizer), pad_token_id=PADDING, use_cache=False))

    @property
    def words(self) -> nn.Embedding:
        return self.body.model.embed_tokens

    def states(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        return self.body.model(input_ids=ids, use_cache=False).last_hidden_state

    def logits(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T W"]:
        return self.body.lm_head(x)

    def forward(self, ids: Int[Tensor, "B T"], mask: Int[Tensor, "B T"], labels: Int[Tensor, "B T"]) -> Tensor:
        """The mean loss of a token, by Llama's own arithmetic: it shifts the labels itself."""
        return self.body(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).loss


@dataclass
class Run:
    """How training went.

    seconds, tokens   of all steps
    settling          (seconds, tokens) of the steps before speed is measured
    scores            (step, scores) of each validation
    """

    steps: int = 0
    seconds: float = 0.0
    tokens: int = 0
    settling: tuple[float, int] = (0.0, 0)
    scores: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Target tokens a second after the first steps."""
        return (self.tokens - self.settling[1]) / (self.seconds - self.settling[0])

    @property
    def start_seconds(self) -> float:
        """Seconds that the first steps took beyond what they would take later: compiling, mostly."""
        return max(0.0, self.settling[0] - self.settling[1] / self.speed)


def rows_of(pieces: Sequence[Sequence[int]], longest: int) -> Rows:
    """Texts as ids, one after the other, without those that are too long for training, as in our training."""
    kept = [ids for ids in pieces if 0 < len(ids) <= longest]
    lengths = np.array([len(ids) for ids in kept])
    return Rows(np.concatenate(kept), np.cumsum(lengths) - lengths, lengths)


def pad_for_llama(texts: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """(ids with begin and end, a mask of the places that are not padding, labels)"""
    ids = torch.from_numpy(texts.padded(before=BEGIN, after=END))
    mask = torch.arange(ids.shape[1]) < torch.from_numpy(texts.lengths)[:, None] + 2
    return ids, mask.long(), ids.masked_fill(~mask, UNSEEN)


def fit_llama(
    model: Llama, texts: Rows, config: TrainConfig, steps: int, machine: Machine, validate: Callable[[], dict[str, float]],
    every: int, *, compiled: bool = False,
) -> Run:  # fmt: skip
    """Train, and validate after every `every` steps. Time stands still during validation."""
    learn = make_step(model, config, machine, compiled)
    plan = BatchPlan(texts.lengths + 1, np.ones_like(texts.lengths), config.tokens, config.seed)
    run, clock, warmup = Run(), Stopwatch(machine.device), warmup_of(config, steps)

    def make(step: int) -> tuple[tuple[Tensor, ...], int]:
        some = texts.some(plan.rows(step))
        batch = pad_for_llama(some)
        return tuple(map(Tensor.pin_memory, batch)) if machine.device.type == "cuda" else batch, count_tokens(some)

    model.train()
    clock.start()
    for run.steps, (batch, tokens) in enumerate(prefetch(make, 0, steps), 1):
        learn(batch, config.rate * rate_at(run.steps, schedule=config.schedule, warmup=warmup, steps=steps))
        run.tokens += tokens
        if run.steps == SETTLED:
            run.seconds += clock.stop()
            run.settling = run.seconds, run.tokens
            clock.start()
        if run.steps % every == 0 or run.steps == steps:
            run.seconds += clock.stop()
            run.scores.append((run.steps, validate()))
            model.train()
            clock.start()
    return run


def make_step(
    model: Llama, config: TrainConfig, machine: Machine, compiled: bool
) -> Callable[[tuple[Tensor, ...], float], None]:
    """A function that makes one update, written as everybody writes it."""
    optimizer: Any = build_optimizer(model, config.rate, config.weight_decay)
    parameters = list(model.parameters())
    loss_of: Callable[..., Tensor] = torch.compile(model, dynamic=True) if compiled else model

    def step(batch: tuple[Tensor, ...], rate: float) -> None:
        ids, mask, labels = (t.to(machine.device, non_blocking=True) for t in batch)
        with machine.autocast():
            loss = loss_of(ids, mask, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, config.clip or math.inf)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


class Stopwatch:
    """A stopwatch that waits for the device before it reads the time."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.began = device, 0.0

    def start(self) -> None:
        self.began = self.now()

    def stop(self) -> float:
        return self.now() - self.began

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()
