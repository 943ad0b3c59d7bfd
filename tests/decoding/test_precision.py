"""Which precision a translator computes in: what was asked for, and on a CPU full precision unless it was."""

import pytest
import torch

from manyheads import OptionError
from manyheads.decoding.translator import Translator
from manyheads.machine import choose_dtype

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


def dtypes(translator):
    return {parameter.dtype for parameter in translator.model.parameters()}


def test_a_gpu_translates_in_half_precision_and_a_cpu_does_not():
    assert choose_dtype(torch.device("cuda")) == torch.float16
    assert choose_dtype(torch.device("cpu")) == torch.float32
    assert dtypes(Translator.load("de-en", "cpu")) == {torch.float32}


@pytest.mark.parametrize("precision", HALF)
def test_half_precision_translates(precision):
    translator = Translator.load("de-en", "cpu", precision)
    assert dtypes(translator) == {HALF[precision]}
    assert translator("Tom ist alt.") == "Tom is old."


def test_weights_that_were_rounded_are_not_saved(tmp_path):
    with pytest.raises(OptionError) as error:
        Translator.load("de-en", "cpu", "fp16").save(tmp_path / "out")
    assert error.value.message == "a model is saved from its weights in full precision, got float16"
    assert not (tmp_path / "out").exists()


def test_an_unknown_precision_is_refused_before_the_model_is_read():
    with pytest.raises(OptionError) as error:
        Translator.load("there is no such folder", "cpu", "fp8")
    assert error.value.message == "--precision must be one of 'auto', 'fp32', 'bf16', 'fp16', got 'fp8'"
