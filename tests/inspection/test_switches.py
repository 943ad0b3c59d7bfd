"""A head that is off says nothing, and nobody else says anything different because of it."""

import pytest
import torch

from inspection.test_trace import SOURCE, TARGET, build, rows
from manyheads import OptionError, Translator, inspect
from manyheads.inspection.importance import importance
from manyheads.inspection.switches import Head, every_head, head_means, switched_off
from manyheads.inspection.trace import attentions
from manyheads.text.tokenizer import END

TEXT = "Ein kleiner Hund schläft unter dem Tisch."


@torch.no_grad()
@pytest.mark.parametrize(
    "off", [[Head("cross", 1, 2)], [Head("encoder", 0, 0), Head("encoder", 0, 3), Head("decoder", 1, 1)]]
)
def test_a_head_that_is_off_is_one_whose_output_weights_are_0(off):
    model = build({"kv_heads": 2}).eval()
    with switched_off(model, off):
        found = model(rows(SOURCE), rows(TARGET))
        cache = model.start(model.encode(rows(SOURCE)))
        by_steps = torch.cat([model.step(rows([token]), cache) for token in TARGET], 1)
    with_it = model(rows(SOURCE), rows(TARGET))
    for kind, layer, head in off:
        attentions(model)[kind][layer].output.weight[:, 8 * head : 8 * head + 8] = 0
    expected = model(rows(SOURCE), rows(TARGET))
    assert (found - expected).abs().max() <= 1e-5
    assert (by_steps - expected).abs().max() <= 1e-5
    assert (found - with_it).abs().max() > 1e-3


@torch.no_grad()
def test_without_cross_attention_the_source_is_not_read():
    model = build({}).eval()
    with switched_off(model, [head for head in every_head(model) if head.kind == "cross"]):
        one, other = (model(rows(source), rows(TARGET)) for source in (SOURCE, [3, 2]))
    assert torch.equal(one, other)


@pytest.mark.parametrize(
    "head", [Head("cross", 2, 0), Head("cross", 0, 4), Head("round", 0, 0), Head("encoder", -1, 0)]
)
def test_a_head_that_is_not_there_is_refused_and_nothing_stays_off(head):
    model = build({})
    with pytest.raises(OptionError, match="must exist in the model"), switched_off(model, [Head("cross", 0, 0), head]):
        pass
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_importance_is_what_the_score_loses():
    translator = Translator.load("de-en", "cpu")
    found = inspect(translator, TEXT)
    table = importance(found)
    assert len(table) == 14 * 4
    for head in (min(table, key=table.__getitem__), max(table, key=table.__getitem__), Head("encoder", 2, 1)):
        without = inspect(translator, TEXT, found.translation, off=[head])
        assert without.off == (head,)
        assert table[head] == pytest.approx(without.log_probability - found.log_probability, abs=1e-4)
    assert min(table.values()) < -0.1


def test_heads_that_are_off_stay_off_while_the_others_are_ranked():
    translator = Translator.load("de-en", "cpu")
    off = (Head("cross", 3, 1), Head("encoder", 0, 0))
    found = inspect(translator, TEXT, off=off)
    table = importance(found)
    assert [table[head] for head in off] == [0, 0]
    without = inspect(translator, TEXT, found.translation, off=[*off, Head("cross", 0, 0)])
    expected = without.log_probability - found.log_probability
    assert table[Head("cross", 0, 0)] == pytest.approx(expected, abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("head", [Head("encoder", 1, 0), Head("decoder", 0, 3), Head("cross", 1, 2)])
def test_a_head_that_gives_its_mean_gives_the_same_to_every_word(head):
    """The mean of its channels, through its columns of the output weights, is a bias. With these columns 0, nothing else is left."""
    model = build({"kv_heads": 2}).eval()
    means = head_means(model, SOURCE, TARGET)
    with switched_off(model, [head], means):
        found = model(rows(SOURCE), rows(TARGET))
        cache = model.start(model.encode(rows(SOURCE)))
        by_steps = torch.cat([model.step(rows([token]), cache) for token in TARGET], 1)
    attention = attentions(model)[head.kind][head.layer]
    seen = []
    hook = attention.output.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with_it = model(rows(SOURCE), rows(TARGET))
    hook.remove()
    columns = slice(8 * head.head, 8 * head.head + 8)
    bias = attention.output.weight[:, columns] @ seen[0][0, :, columns].mean(0)
    attention.output.bias = torch.nn.Parameter(bias)
    attention.output.weight[:, columns] = 0
    expected = model(rows(SOURCE), rows(TARGET))
    assert (found - expected).abs().max() <= 1e-5
    assert (by_steps - expected).abs().max() <= 1e-5
    assert (found - with_it).abs().max() > 1e-4


def test_the_mean_of_one_row_is_that_row():
    """What is written has one row, its end: there all heads of the decoder give their means already."""
    translator = Translator.load("de-en", "cpu")
    whole = inspect(translator, TEXT, ids=[END])
    every = [head for head in every_head(translator.single) if head.kind != "encoder"]
    assert inspect(translator, TEXT, ids=[END], off=every, instead="mean").log_probability == pytest.approx(
        whole.log_probability, abs=1e-4
    )
    assert inspect(translator, TEXT, ids=[END], off=every).log_probability != pytest.approx(
        whole.log_probability, abs=0.1
    )


def test_means_are_those_of_what_all_heads_write_and_stay_for_what_is_asked_later():
    translator, off = Translator.load("de-en", "cpu"), [Head("cross", 0, 0), Head("encoder", 0, 1)]
    whole = inspect(translator, TEXT)
    found = inspect(translator, TEXT, off=off, instead="mean")
    layers = attentions(translator.single)
    for (kind, layer, head), mean in zip(off, found.off_means(), strict=True):
        assert mean == pytest.approx(whole.whole_means()[layers[kind][layer]][head].tolist(), abs=1e-5)
    with found.without():
        again = inspect(translator, TEXT, found.translation)
    assert again.log_probability == pytest.approx(found.log_probability, abs=1e-4)
    assert importance(whole, "mean")[off[0]] == pytest.approx(
        inspect(translator, TEXT, whole.translation, off=off[:1], instead="mean").log_probability
        - whole.log_probability,
        abs=1e-4,
    )
    with pytest.raises(OptionError, match="instead must be one of 'zero', 'mean'"):
        inspect(translator, TEXT, instead="none")


def test_a_prefix_is_kept():
    assert inspect("de-en", TEXT, prefix="A small dog is").translation == "A small dog is sleeping under the table."
