"""Where words lie from which is drawn does not depend on the rounding of their probabilities."""

import torch

from manyheads.decoding.greedy import Sampler


def draws(log_p, **options):
    how = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 3} | options
    sampler = Sampler(range(len(log_p)), **how)
    return sampler(log_p, torch.arange(len(log_p)), 0)


def test_two_words_that_are_nearly_alike_may_change_places():
    """As in another batch, where sums are rounded otherwise. Of sorted words every other draw would be another word."""
    torch.manual_seed(0)
    log_p = torch.full((500, 40), 1 / 40).log() + 1e-7 * torch.randn(500, 40)
    again = log_p + 1e-7 * torch.randn(500, 40)
    for options in ({}, {"temperature": 2.0}):
        assert (draws(log_p, **options) != draws(again, **options)).sum() <= 1


def test_as_often_as_they_are_likely():
    p = torch.tensor([0.0, 0.5, 0.1, 0.4])
    counts = draws(p.log().expand(4_000, 4)).bincount(minlength=4) / 4_000
    torch.testing.assert_close(counts, p, atol=0.03, rtol=0)
    of_two = draws(p.log().expand(4_000, 4), top_k=2).bincount(minlength=4) / 4_000
    torch.testing.assert_close(of_two, torch.tensor([0.0, 5 / 9, 0.0, 4 / 9]), atol=0.03, rtol=0)
    assert draws(p.log().expand(400, 4), top_p=0.45).unique().tolist() == [1]


def test_of_no_numbers_none_is_drawn():
    assert draws(torch.full((3, 5), torch.nan)).tolist() == [0, 0, 0]
