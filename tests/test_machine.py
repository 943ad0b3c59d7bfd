"""Which precision is chosen where."""

import pytest
import torch

from manyheads.machine import choose_machine


@pytest.mark.parametrize(
    ("has_it", "width", "wanted"),
    [(True, 256, "bf16"), (True, 1024, "bf16"), (True, 128, "fp32"), (False, 512, "fp32")],
)
def test_a_cpu_multiplies_in_bf16_if_it_can_and_the_model_is_wide(has_it, width, wanted, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_it, raising=False)
    machine = choose_machine("cpu", "auto", width)
    assert machine.precision == wanted
    assert str(machine).endswith(f", {wanted}")
    with machine.autocast():
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == machine.dtype
    assert choose_machine("cpu", "fp32", width).precision == "fp32"


def test_where_pytorch_does_not_say_it_is_float32(monkeypatch):
    monkeypatch.delattr(torch.cpu, "_is_avx512_bf16_supported", raising=False)
    assert choose_machine("cpu", "auto", 512).precision == "fp32"
