"""Architectures built from `manyheads.nn`."""

from typing import TYPE_CHECKING

from manyheads.lazy import lazy

if TYPE_CHECKING:
    from manyheads.models.config import TransformerConfig as TransformerConfig
    from manyheads.models.cost import Cost as Cost
    from manyheads.models.cost import transformer_cost as transformer_cost
    from manyheads.models.transformer import PADDING as PADDING
    from manyheads.models.transformer import Transformer as Transformer

__all__ = ["PADDING", "Cost", "Transformer", "TransformerConfig", "transformer_cost"]

__getattr__ = lazy(
    __name__,
    {
        "PADDING": "manyheads.models.transformer",
        "Cost": "manyheads.models.cost",
        "Transformer": "manyheads.models.transformer",
        "TransformerConfig": "manyheads.models.config",
        "transformer_cost": "manyheads.models.cost",
    },
)
