import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # helpers of tests, and the benchmarks

# Without a GPU, kernels are interpreted. Triton must know before it is first imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")


def triton_version() -> str:
    try:
        return version("triton")
    except PackageNotFoundError:
        return ""


if os.environ.get("TRITON_INTERPRET") == "1" and triton_version().startswith("3.6."):
    # The interpreter of 3.6, which goes with PyTorch 2.11, makes a number of an array of one, which NumPy 2.4 refuses.
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patch_and_count(tensor, scope):
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patch_and_count

# Examples are drawn anew from the same seed in every run, and no deadline: speed is not a test's business.
settings.register_profile("exact", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "exact"))


@pytest.fixture(autouse=True)
def _same_numbers_every_time():
    torch.manual_seed(0)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs CUDA")
    return torch.device(request.param)
