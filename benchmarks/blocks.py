"""Attention, block and model of this project against PyTorch's own, forward and forward + backward, in one run.

    python -m benchmarks.blocks                                                 on this CPU
    python -m benchmarks.blocks --device cuda --dtype bfloat16                  on a GPU
    python -m benchmarks.blocks --device cuda --dtype bfloat16 --compile        both compiled
    python -m benchmarks.blocks … --json FILE                                   and keep the figures

The ratio is PyTorch's time over ours: above 1, ours is faster. The last rows compare ours with ours:
what the explicit path costs over the fused one, and what packing gains over padding.
"""

import argparse
import json
import platform
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.peers import TorchTransformer, without_weight_dropout
from benchmarks.timing import side_by_side
from manyheads import Transformer, TransformerConfig
from manyheads.nn import DecoderBlock, EncoderBlock, FeedForward, MultiHeadAttention, Packed, Padded, PreNorm, sinusoids

WIDTH, HEADS, HIDDEN, LAYERS, WORDS, DROPOUT = 512, 8, 2048, 6, 10_000, 0.1
LONGEST = 48

Run = Callable[[], Tensor]


class Case(NamedTuple):
    name: str
    ours: Run
    theirs: Run


class Bench:
    """The inputs, on one device and in one dtype; `put` moves modules there."""

    def __init__(self, device: torch.device, dtype: torch.dtype, batch: int, compiled: bool) -> None:
        torch.manual_seed(0)
        self.device, self.dtype, self.batch, self.compiled = device, dtype, batch, compiled
        self.lengths = [LONGEST, *torch.randint(32, LONGEST + 1, (batch - 1,)).tolist()]  # a batch of similar lengths
        self.layout = Padded.from_lengths(self.lengths, device)
        self.packed = Packed.from_lengths(self.lengths, device)
        keep = torch.arange(LONGEST, device=device) < torch.tensor(self.lengths, device=device)[:, None]
        self.padding = ~keep
        self.causal = nn.Transformer.generate_square_subsequent_mask(LONGEST, device, dtype=torch.bool)
        self.x, self.y = (self.random(batch, LONGEST, WIDTH) for _ in range(2))
        self.ids = torch.randint(1, WORDS, (batch, LONGEST), device=device) * keep

    def random(self, *shape: int) -> Tensor:
        return torch.randn(shape, device=self.device, dtype=self.dtype, requires_grad=True)

    def put(self, module: nn.Module, training: bool) -> Any:
        module = without_weight_dropout(module).to(self.device, self.dtype).train(training)
        return torch.compile(module) if self.compiled else module


def attention_cases(bench: Bench, training: bool) -> Iterator[Case]:
    put, x, y, layout = partial(bench.put, training=training), bench.x, bench.y, bench.layout
    ours = put(MultiHeadAttention(WIDTH, HEADS, bias=True))
    causal = put(MultiHeadAttention(WIDTH, HEADS, bias=True, causal=True))
    theirs = put(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))

    def torch_attention(query: Tensor, memory: Tensor, **options: Any) -> Tensor:
        return theirs(query, memory, memory, need_weights=False, **options)[0]

    padding = {"key_padding_mask": bench.padding}
    look_back = {"attn_mask": bench.causal, "is_causal": True}
    yield Case("attention", lambda: ours(x), lambda: torch_attention(x, x))
    yield Case("attention, padded", lambda: ours(x, layout=layout), lambda: torch_attention(x, x, **padding))
    yield Case("attention, causal", lambda: causal(x), lambda: torch_attention(x, x, **look_back))
    yield Case("attention, cross", lambda: ours(y, x, memory_layout=layout), lambda: torch_attention(y, x, **padding))


def block_cases(bench: Bench, training: bool) -> Iterator[Case]:
    put, x, y, layout, plain = (
        partial(bench.put, training=training),
        bench.x,
        bench.y,
        bench.layout,
        Padded.like(bench.y),
    )
    residual = partial(PreNorm, partial(nn.LayerNorm, WIDTH), dropout=DROPOUT)
    feedforward = partial(FeedForward, WIDTH, HIDDEN, dropout=DROPOUT)
    attention = partial(MultiHeadAttention, WIDTH, HEADS, bias=True)
    shape = (WIDTH, HEADS, HIDDEN, DROPOUT)

    encoder = put(EncoderBlock(attention(), feedforward(), residual))
    torch_encoder = put(nn.TransformerEncoderLayer(*shape, batch_first=True, norm_first=True))
    yield Case(
        "encoder block", lambda: encoder(x, layout), lambda: torch_encoder(x, src_key_padding_mask=bench.padding)
    )
    decoder = put(DecoderBlock(attention(causal=True), attention(), feedforward(), residual))
    torch_decoder = put(nn.TransformerDecoderLayer(*shape, batch_first=True, norm_first=True))
    options: Any = {"tgt_mask": bench.causal, "tgt_is_causal": True, "memory_key_padding_mask": bench.padding}
    yield Case("decoder block", lambda: decoder(y, plain, x, layout), lambda: torch_decoder(y, x, **options))


def model_cases(bench: Bench, training: bool) -> Iterator[Case]:
    ours, ids = bench.put(build_model(), training), bench.ids
    table = sinusoids(torch.arange(LONGEST), WIDTH)
    theirs = bench.put(TorchTransformer(WORDS, WIDTH, HEADS, LAYERS, HIDDEN, DROPOUT, table), training)
    yield Case("model", lambda: ours(ids, ids), lambda: theirs(ids, ids))


def own_cases(bench: Bench, training: bool) -> Iterator[Case]:
    """Ours against ours: what the weights cost, what packing gains."""
    mha, x, layout = bench.put(MultiHeadAttention(WIDTH, HEADS, bias=True), training), bench.x, bench.layout
    yield Case(
        "explicit against fused", lambda: mha(x, layout=layout, return_weights=True)[0], lambda: mha(x, layout=layout)
    )
    model, ids, packed = bench.put(build_model(), training), bench.ids, bench.packed
    tokens = packed.pack(ids)
    yield Case("model, packed against padded", lambda: model(tokens, tokens, packed, packed), lambda: model(ids, ids))


def build_model() -> Transformer:
    """A model of the base size, with the biases and dropouts of PyTorch's own."""
    config = TransformerConfig(
        width=WIDTH, heads=HEADS, layers=LAYERS, feedforward=HIDDEN, norm="pre", bias=True,
        dropout=DROPOUT, feedforward_dropout=DROPOUT,
    )  # fmt: skip
    return Transformer(config, WORDS)


@torch.inference_mode()
def look(run: Run) -> None:
    run()


def learn(run: Run) -> None:
    run().float().mean().backward()


CASES = {"attention": attention_cases, "block": block_cases, "model": model_cases, "own": own_cases}


def measure(bench: Bench, rounds: int, kinds: list[str]) -> Iterator[dict[str, Any]]:
    for name, work, training in (("forward", look, False), ("forward + backward", learn, True)):
        for kind in kinds:
            for case in CASES[kind](bench, training):
                ours, theirs = partial(work, case.ours), partial(work, case.theirs)
                yield {"case": case.name, "pass": name, **side_by_side(ours, theirs, bench.device, rounds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch", type=int, default=None, help="sentences (default 16, on a GPU 256)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--compile", action="store_true", help="compile both sides")
    parser.add_argument("--only", nargs="*", choices=[*CASES], default=[*CASES])
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args()
    device = torch.device(given.device)
    batch = given.batch or (256 if device.type == "cuda" else 16)
    bench = Bench(device, getattr(torch, given.dtype), batch, given.compile)
    cpu = f"{platform.machine()}, {torch.get_num_threads()} threads"
    setting = {
        "machine": torch.cuda.get_device_name() if device.type == "cuda" else cpu, "torch": torch.__version__,
        "dtype": given.dtype, "compiled": given.compile, "tokens": sum(bench.lengths), "positions": batch * LONGEST,
    }  # fmt: skip
    print(", ".join(f"{key} {value}" for key, value in setting.items()))
    print(f"{'case':30}{'pass':20}{'ours ms':>10}{'theirs ms':>10}{'ratio':>9}")
    rows = []
    for row in measure(bench, given.rounds, given.only):
        rows.append(row)
        figures = f"{row['ours_ms']:10.2f}{row['theirs_ms']:10.2f}{row['ratio']:8.2f}×"
        print(f"{row['case']:30}{row['pass']:20}{figures}", flush=True)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps({**setting, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
