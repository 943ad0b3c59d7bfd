"""cuDNN's switch belongs to the process: two threads inside at once must not undo one another."""

import torch

from manyheads.nn.fused import CudnnOff


def test_the_last_one_out_turns_it_on_again():
    before = torch.backends.cuda.cudnn_sdp_enabled()
    first, second = CudnnOff(), CudnnOff()
    with first:
        second.__enter__()
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    second.__exit__()
    assert torch.backends.cuda.cudnn_sdp_enabled() == before
