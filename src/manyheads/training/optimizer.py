"""AdamW as the paper set Adam: β = (0.9, 0.98), ε = 1e-9. Matrices decay; norms, biases and embeddings do not.

If the recipe says so, the hidden matrices are Muon's instead (muon.py).
"""

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from manyheads.errors import OptionError
from manyheads.models.matrices import matrices_of
from manyheads.team import like, whole
from manyheads.training.muon import Muon

__all__ = ["build_optimizer", "optimizer_tensors", "ready_to_record", "restore_optimizer", "update"]


def build_optimizer(model: nn.Module, rate: float, weight_decay: float, kind: str = "adamw") -> Optimizer:
    """AdamW for all parameters; or, if the kind is "muon", Muon for the hidden matrices and AdamW for all else."""
    if kind == "adamw":
        return build_adamw(model, rate, weight_decay)
    matrices = {p: rows for m in model.modules() for p, rows in matrices_of(m) if p.requires_grad}
    if not any(p.requires_grad and p not in matrices for p in model.parameters()):
        raise OptionError(
            "Muon is for hidden matrices beside which something else learns, got a model of which nothing else does",
            hint="train.optimizer=adamw",
        )
    return Muon(matrices, build_adamw(model, rate, weight_decay, without=matrices), rate, weight_decay)


def build_adamw(model: nn.Module, rate: float, weight_decay: float, without: Collection[Tensor] = frozenset()) -> AdamW:
    embedded = {m.weight for m in model.modules() if isinstance(m, nn.Embedding)}
    parameters = [p for p in model.parameters() if p.requires_grad and p not in without]
    decaying = [p for p in parameters if p.ndim >= 2 and p not in embedded]
    others = [p for p in parameters if p.ndim < 2 or p in embedded]
    groups = [{"params": decaying, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return AdamW([g for g in groups if g["params"]], lr=rate, betas=(0.9, 0.98), eps=1e-9, fused=True)


def update(
    optimizer: Optimizer, parameters: list[nn.Parameter], rate: float | Float[Tensor, ""], clip: float
) -> tuple[Tensor, Tensor]:
    """One step, unless a gradient is not finite: then nothing changes. Gives (the gradient's norm, 1 if skipped).

    The decision is taken on the device, by the optimizer's own kernels: the loop need not wait for it. If the rate lies on the device,
    too, the step can be captured in a CUDA graph.
    """
    norm = whole(torch.nn.utils.clip_grad_norm_(parameters, clip or torch.inf, foreach=True))
    skipped = (~norm.isfinite()).float()
    for group in optimizer.param_groups:
        group["lr"], group["capturable"] = rate, isinstance(rate, Tensor)
    # What a GradScaler would set: a fused optimizer leaves everything as it is if found_inf is 1.
    optimizer.grad_scale, optimizer.found_inf = None, skipped  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm, skipped


def ready_to_record(optimizer: Optimizer) -> None:
    """Make the state that the first step would make: what is made within a CUDA graph begins anew in every replay."""
    adamw = optimizer.adamw if isinstance(optimizer, Muon) else optimizer
    adamw_s = {p for group in adamw.param_groups for p in group["params"]}
    for p in (p for group in optimizer.param_groups for p in group["params"] if not optimizer.state[p]):
        kinds = ("exp_avg", "exp_avg_sq") if p in adamw_s else ("momentum",)
        count = {"step": torch.zeros((), device=p.device)} if p in adamw_s else {}
        optimizer.state[p].update(count | {kind: torch.zeros_like(p) for kind in kinds})
    for one in {optimizer, adamw}:  # torch would warn of a step that is done as it is, as the first is
        one._warned_capturable_if_run_uncaptured = True  # type: ignore[attr-defined]


def optimizer_tensors(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Its state by name: "exp_avg:encoder.blocks.0…"."""
    names = {id(p): name for name, p in model.named_parameters()}
    return {f"{kind}:{names[id(p)]}": tensor for p, state in optimizer.state.items() for kind, tensor in state.items()}


def restore_optimizer(optimizer: Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for key, tensor in sorted(tensors.items()):  # in one order in all processes: what is shared out is sent around
        kind, _, name = key.partition(":")
        p = parameters[name]
        optimizer.state[p][kind] = like(p, tensor.float())
