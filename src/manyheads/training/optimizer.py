"""AdamW with the settings of the Transformer paper: β = (0.9, 0.98), ε = 1e-9.

Weight decay applies to matrices, not to norms, biases and embeddings. If the recipe says so, Muon updates the hidden
matrices instead (muon.py).
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
    """AdamW for all parameters; if `kind` is "muon", Muon for the hidden matrices and AdamW for everything else."""
    if kind == "adamw":
        return build_adamw(model, rate, weight_decay)
    matrices = {p: rows for m in model.modules() for p, rows in matrices_of(m) if p.requires_grad}
    if not any(p.requires_grad and p not in matrices for p in model.parameters()):
        raise OptionError(
            "Muon needs parameters to train besides hidden matrices, got a model without any",
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
    """One step, skipped if a gradient is not finite. Returns (the gradient's norm, 1 if skipped).

    The optimizer's own kernels decide on the device, so the loop need not wait. If the rate is on the device, too, the
    step can be captured in a CUDA graph.
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
    """Create the state that the first step would create: state created within a CUDA graph is reset by every replay."""
    adamw = optimizer.adamw if isinstance(optimizer, Muon) else optimizer
    adamw_s = {p for group in adamw.param_groups for p in group["params"]}
    for p in (p for group in optimizer.param_groups for p in group["params"] if not optimizer.state[p]):
        kinds = ("exp_avg", "exp_avg_sq") if p in adamw_s else ("momentum",)
        count = {"step": torch.zeros((), device=p.device)} if p in adamw_s else {}
        optimizer.state[p].update(count | {kind: torch.zeros_like(p) for kind in kinds})
    for one in {optimizer, adamw}:  # torch would warn of a step outside a capture, as the first is
        one._warned_capturable_if_run_uncaptured = True  # type: ignore[attr-defined]


def optimizer_tensors(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's state by name: "exp_avg:encoder.blocks.0…"."""
    names = {id(p): name for name, p in model.named_parameters()}
    return {f"{kind}:{names[id(p)]}": tensor for p, state in optimizer.state.items() for kind, tensor in state.items()}


def restore_optimizer(optimizer: Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for key, tensor in sorted(tensors.items()):  # the same order in all processes: sharded tensors are sent around
        kind, _, name = key.partition(":")
        p = parameters[name]
        optimizer.state[p][kind] = like(p, tensor.float())
