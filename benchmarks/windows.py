"""The gain from cutting a narrow window into chunks instead of masking all scores, by length.

python -m benchmarks.windows
"""

import torch

from benchmarks.timing import side_by_side
from manyheads.nn import attention, fused_attention

HEADS, WIDTH, WINDOW = 8, 64, (16, 16)


def main() -> None:
    print(f"{HEADS} heads of {WIDTH}, window {WINDOW}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print(f"{'tokens':>8}{'chunks ms':>12}{'mask ms':>12}{'ratio':>9}")
    for length in (256, 512, 1024, 2048, 4096):
        q, k, v = torch.randn(3, 1, HEADS, length, WIDTH).unbind()
        row = side_by_side(
            lambda q=q, k=k, v=v: attention(q, k, v, window=WINDOW),
            lambda q=q, k=k, v=v: fused_attention(q, k, v, window=WINDOW),
            torch.device("cpu"),
            rounds=5,
            at_least=1.0,
        )
        print(f"{length:8}{row['ours_ms']:12.1f}{row['theirs_ms']:12.1f}{row['ratio']:8.1f}×")


if __name__ == "__main__":
    main()
