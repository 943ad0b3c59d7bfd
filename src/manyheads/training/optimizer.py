"""AdamW as the paper set Adam: β = (0.9, 0.98), ε = 1e-9. Matrices decay; norms, biases and embeddings do not."""

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from manyheads.team import like, whole

__all__ = ["build_optimizer", "optimizer_tensors", "restore_optimizer", "update"]


def build_optimizer(model: nn.Module, rate: float, weight_decay: float) -> AdamW:
    embedded = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    parameters = [p for p in model.parameters() if p.requires_grad]
    decaying = [p for p in parameters if p.ndim >= 2 and id(p) not in embedded]
    chosen = {id(p) for p in decaying}
    others = [p for p in parameters if id(p) not in chosen]
    groups = [{"params": decaying, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return AdamW([g for g in groups if g["params"]], lr=rate, betas=(0.9, 0.98), eps=1e-9, fused=True)


def update(optimizer: AdamW, parameters: list[nn.Parameter], rate: float, clip: float) -> tuple[Tensor, Tensor]:
    """One step, unless a gradient is not finite: then nothing changes. Gives (the gradient's norm, 1 if skipped).

    The decision is taken on the device, by the fused kernel itself: the loop need not wait for it.
    """
    norm = whole(torch.nn.utils.clip_grad_norm_(parameters, clip or torch.inf, foreach=True))
    skipped = (~norm.isfinite()).float()
    for group in optimizer.param_groups:
        group["lr"] = rate
    # What a GradScaler would set: a fused optimizer leaves everything as it is if found_inf is 1.
    optimizer.grad_scale, optimizer.found_inf = None, skipped  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm, skipped


def optimizer_tensors(optimizer: AdamW, model: nn.Module) -> dict[str, Tensor]:
    """Its state by name: "exp_avg:encoder.blocks.0…"."""
    names = {id(p): name for name, p in model.named_parameters()}
    return {f"{kind}:{names[id(p)]}": tensor for p, state in optimizer.state.items() for kind, tensor in state.items()}


def restore_optimizer(optimizer: AdamW, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for key, tensor in sorted(tensors.items()):  # in one order in all processes: what is shared out is sent around
        kind, _, name = key.partition(":")
        p = parameters[name]
        optimizer.state[p][kind] = like(p, tensor.float())
