"""The whole model under every option: cached, packed, padded, alone or in a batch, it says the same."""

import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from manyheads import OptionError, TensorError, Transformer, TransformerConfig, load_recipe
from manyheads.models import PADDING
from manyheads.nn import Packed, Padded

SMALL = TransformerConfig(width=16, layers=2, heads=4, feedforward=32, dropout=0.0)
WORDS = 23
OPTIONS = {
    "paper": {},
    "pre-norm": {"norm": "pre"},
    "rms": {"normaliser": "rms", "norm": "pre"},
    "deep and shallow": {"layers": 3, "decoder_layers": 1},
    "grouped": {"kv_heads": 2},
    "free widths": {"key_width": 6, "value_width": 5},
    "learned": {"positions": "learned", "max_length": 12},
    "rotary": {"positions": "rotary"},
    "half-split": {"positions": "sinusoidal-split"},
    "no positions": {"positions": "none"},
    "swiglu": {"activation": "swiglu", "feedforward_bias": False},
    "biases": {"bias": True},
    "query-key norm": {"qk_norm": True},
    "additive": {"score": "additive"},
    "window": {"window": (2, 1)},
    "same depth": {"cross": "same", "norm": "pre"},
    "untied": {"tie": "none"},
    "target tied": {"tie": "target"},
}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def build(**options):
    """A model with every parameter away from its start, so that biases and norms count."""
    model = Transformer(replace(SMALL, **options), WORDS).eval()
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    return model


def close(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


def draw_pairs(lengths):
    sources = [torch.randint(1, WORDS, (s,)) for s, _ in lengths]
    targets = [torch.randint(1, WORDS, (t,)) for _, t in lengths]
    return sources, targets


def pad(rows):
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)


@every_option
@settings(max_examples=15)
@given(lengths=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4))
def test_alone_padded_and_packed_agree(options, lengths):
    model = build(**options)
    sources, targets = draw_pairs(lengths)
    alone = torch.cat([model(s[None], t[None])[0] for s, t in zip(sources, targets, strict=True)])
    s, t = (Packed.from_lengths([len(row) for row in rows]) for rows in (sources, targets))
    close(t.pack(model(pad(sources), pad(targets))), alone)
    close(model(torch.cat(sources), torch.cat(targets), s, t), alone)


@every_option
def test_cached_decoding_equals_uncached(options):
    model = build(**options)
    sources, targets = draw_pairs([(7, 9), (3, 9), (5, 9)])
    memory = model.encode(pad(sources))
    cache = model.start(memory)
    steps = [model.step(pad(targets)[:, a:b], cache) for a, b in [(0, 1), (1, 2), (2, 6), (6, 9)]]
    close(torch.cat(steps, dim=1), model.decode(pad(targets), memory))


@every_option
def test_a_cache_can_be_reordered_and_thinned_out(options):
    model = build(**options)
    sources, targets = draw_pairs([(7, 9), (3, 9), (5, 9)])
    cache = model.start(model.encode(pad(sources)))
    model.step(pad(targets)[:, :5], cache)
    rows = torch.tensor([2, 0])
    cache.select(rows)
    continued = model.step(pad(targets)[rows, 5:], cache)
    close(continued, model(pad(sources)[rows], pad(targets)[rows])[:, 5:])


def test_a_refused_step_leaves_the_cache_as_it_was():
    model = build()
    sources, targets = draw_pairs([(7, 4), (3, 4)])
    cache = model.start(model.encode(pad(sources)))
    with pytest.raises(TensorError, match="as many targets as sources, got 3 and 2"):
        model.step(torch.ones(3, 1, dtype=torch.int64), cache)
    close(model.step(pad(targets), cache), model(pad(sources), pad(targets)))


def test_beams_of_one_sentence_change_places():
    model = build()
    sources, targets = draw_pairs([(5, 9), (5, 9), (5, 9)])
    source = sources[0].expand(3, -1)
    cache = model.start(model.encode(source))
    model.step(pad(targets)[:, :5], cache)
    rows = torch.tensor([2, 2, 0])
    cache.reorder(rows)
    close(model.step(pad(targets)[rows, 5:], cache), model(source, pad(targets)[rows])[:, 5:])


@every_option
def test_neighbours_share_a_memory(options):
    """Three hypotheses of each source: they swap places, and a source leaves with all of its own."""
    model = build(**options)
    sources, targets = draw_pairs([(7, 9)] * 2 + [(3, 9)] * 7)
    alone, targets = pad(sources)[::3], pad(targets)
    cache = model.start(model.encode(alone))
    read = [memory.k.data_ptr() for memory in cache.memory]
    cache.share(3)
    first = model.step(targets[:, :5], cache)
    assert [memory.k.data_ptr() for memory in cache.memory] == read, "nothing is copied"
    source = alone.repeat_interleave(3, 0)
    close(first, model(source, targets)[:, :5])
    swapped = torch.tensor([2, 2, 0, 4, 3, 5, 6, 8, 7])
    cache.reorder(swapped)
    staying = torch.tensor([7, 6, 8, 0, 1, 2])  # the last source comes first, the one between leaves
    cache.select(staying)
    rows = swapped[staying]
    close(model.step(targets[rows, 5:], cache), model(source[rows], targets[rows])[:, 5:])


def test_a_memory_is_shared_before_anything_is_written_and_shows_no_weights():
    model, source = build(), torch.ones(2, 3, dtype=torch.int64)
    cache = model.start(model.encode(source))
    cache.share(2)
    with pytest.raises(TensorError, match="as many targets as sources, got 2 and 4"):
        model.step(source[:, :1], cache)
    with pytest.raises(TensorError, match="weights can be collected where rows share no memory, got 2 readers"):
        model.step(torch.ones(4, 1, dtype=torch.int64), cache, [], [])
    cache = model.start(model.encode(source))
    model.step(source[:, :1], cache)
    with pytest.raises(TensorError, match="before anything is written, got 1 token"):
        cache.share(2)


def test_decoding_may_start_from_a_packed_memory():
    model = build()
    sources, targets = draw_pairs([(7, 4), (3, 4)])
    layout = Packed.from_lengths([7, 3])
    cache = model.start(model.encode(torch.cat(sources), layout))
    close(model.step(pad(targets), cache), model(pad(sources), pad(targets)))


@every_option
def test_no_position_sees_what_comes_after_it(options):
    model = build(**options)
    sources, (target,) = draw_pairs([(5, 8)])
    changed = target.clone()
    changed[5:] = (changed[5:] % (WORDS - 1)) + 1
    before, after = model(sources[0][None], target[None]), model(sources[0][None], changed[None])
    close(before[:, :5], after[:, :5], 1e-6)
    assert not torch.allclose(before[:, 5:], after[:, 5:])


@every_option
def test_weights_of_every_head_can_be_collected(options):
    model = build(**options)
    sources, targets = draw_pairs([(5, 4), (3, 4)])
    encoder, decoder, cross = [], [], []
    memory = model.encode(pad(sources), weights=encoder)
    logits = model.decode(pad(targets), memory, weights=decoder, cross_weights=cross)
    close(logits, model(pad(sources), pad(targets)))
    config = model.config
    assert [w.shape for w in encoder] == [(2, 4, 5, 5)] * config.layers
    assert [w.shape for w in decoder] == [(2, 4, 4, 4)] * config.depth
    assert [w.shape for w in cross] == [(2, 4, 4, 5)] * config.depth
    for w in (*encoder, *decoder, *cross):
        close(w.sum(-1), torch.ones(w.shape[:-1]))
    assert all((w[1, :, :, 3:] == 0).all() for w in (*encoder, *cross)), "padding has weight 0"


def test_weights_step_by_step_are_those_of_one_pass():
    model = build(norm="pre")
    sources, targets = draw_pairs([(5, 4)])
    memory = model.encode(pad(sources))
    at_once, cross_at_once, stepped, cross_stepped = [], [], [], []
    model.decode(pad(targets), memory, weights=at_once, cross_weights=cross_at_once)
    cache = model.start(memory)
    for i in range(4):
        model.step(pad(targets)[:, i : i + 1], cache, stepped, cross_stepped)
    for i in range(4):
        for layer in range(2):
            close(stepped[2 * i + layer][:, :, 0], at_once[layer][:, :, i, : i + 1])
            close(cross_stepped[2 * i + layer][:, :, 0], cross_at_once[layer][:, :, i])


def test_same_depth_reads_each_encoder_layer():
    model = build(cross="same", norm="pre")
    memory = model.encode(torch.randint(1, WORDS, (1, 5)))
    assert len(memory.states) == 2
    assert not torch.allclose(*memory.states)
    last = build(norm="pre").encode(torch.randint(1, WORDS, (1, 5)))
    assert last.states[0] is last.states[1]


@pytest.mark.parametrize(("tie", "tables"), [("all", 1), ("target", 2), ("none", 3)])
def test_ties_are_one_tensor_and_stay_so(tie, tables):
    """A tied table is there once: in memory, in the state, and after loading in any way."""
    model = Transformer(replace(SMALL, tie=tie), WORDS)
    with torch.device("meta"):
        loaded = Transformer(replace(SMALL, tie=tie), WORDS)
    loaded.load_state_dict(model.state_dict(), assign=True)
    for one in (model, loaded, copy.deepcopy(model)):
        assert sum(p.shape == (WORDS, 16) for p in one.parameters()) == tables
        assert len({t.data_ptr() for t in one.state_dict().values()}) == len(one.state_dict())
    ids = torch.randint(1, WORDS, (2, 4))
    close(loaded.eval()(ids, ids), model.eval()(ids, ids), 0)


def test_source_and_target_may_have_vocabularies_of_their_own():
    model = Transformer(replace(SMALL, tie="target"), (11, 13))
    assert model(torch.tensor([[10]]), torch.tensor([[12]])).shape == (1, 1, 13)


def test_learned_positions_are_not_shared_between_the_sides():
    model = build(positions="learned", max_length=12)
    assert model.embed_source.positions.table.weight is not model.embed_target.positions.table.weight


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_new_model_starts_with_a_calm_voice(norm):
    """Logits of about unit size, and gradients that reach every parameter."""
    config = TransformerConfig(width=256, layers=6, heads=4, feedforward=512, norm=norm, dropout=0.0)
    model = Transformer(config, 1000)
    source, target = torch.randint(1, 1000, (4, 20)), torch.randint(1, 1000, (4, 20))
    logits = model(source, target)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.randint(1, 1000, (80,)))
    loss.backward()
    assert 0.3 < logits.std().item() < 3
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_drop_path_grows_with_depth():
    model = Transformer(replace(SMALL, layers=3, drop_path=0.2), WORDS)
    chances = [getattr(block.around_attention.drop_path, "probability", 0.0) for block in model.encoder.blocks]
    assert chances == pytest.approx([0.0, 0.1, 0.2])


def test_half_precision_runs():
    model = build(norm="pre").bfloat16()
    reference = build(norm="pre")
    reference.load_state_dict(model.float().state_dict())
    ids = torch.randint(1, WORDS, (2, 6))
    close(model.bfloat16()(ids, ids).float(), reference(ids, ids), 0.15)


@pytest.mark.plain
@pytest.mark.parametrize("layout", ["padded", "packed"])
@pytest.mark.parametrize(
    "options", [{}, {"positions": "rotary", "norm": "pre", "kv_heads": 2, "window": (3, 3)}], ids=str
)
def test_the_model_compiles_into_one_graph(layout, options):
    torch.compiler.reset()
    model = build(**options)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    sources, targets = draw_pairs([(7, 5), (3, 4)])
    given = (torch.cat(sources), torch.cat(targets), Packed.from_lengths([7, 3]), Packed.from_lengths([5, 4]))
    given = (pad(sources), pad(targets)) if layout == "padded" else given
    ours, theirs = model(*given), compiled(*given)
    close(ours, theirs)
    expected = torch.autograd.grad(ours.square().sum(), list(model.parameters()))
    actual = torch.autograd.grad(theirs.square().sum(), list(model.parameters()))
    for a, b in zip(actual, expected, strict=True):
        close(a, b, 1e-4)


@pytest.mark.plain
@pytest.mark.parametrize("options", [{}, {"norm": "pre", "drop_path": 0.3, "attention_dropout": 0.1}], ids=str)
def test_training_mode_compiles_into_one_graph(options):
    torch.compiler.reset()
    model = Transformer(replace(SMALL, dropout=0.1, **options), WORDS).train()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    ids = torch.randint(1, WORDS, (2, 6))
    loss = compiled(ids, ids).square().mean()
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.plain
def test_long_narrow_windows_compile_into_one_graph():
    torch.compiler.reset()
    model = build(window=(8, 8))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    ids = torch.randint(1, WORDS, (2, 300))
    close(compiled(ids, ids), model(ids, ids))


@pytest.mark.plain
def test_one_compiled_graph_serves_every_length():
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    model = build(positions="rotary")
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
    with torch.no_grad():
        for lengths in ([(7, 5), (3, 4)], [(9, 6), (2, 6), (5, 3)], [(4, 8), (8, 8)]):
            sources, targets = draw_pairs(lengths)
            close(compiled(pad(sources), pad(targets)), model(pad(sources), pad(targets)))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_padding_in_the_middle_of_nothing_is_no_nan():
    """A row of padding alone is seen by nobody and hurts nobody."""
    model = build()
    source = torch.tensor([[3, 4, 5], [PADDING, PADDING, PADDING]])
    target = torch.tensor([[1, 2], [1, 2]])
    logits = model(source, target)
    assert logits.isfinite().all()
    close(logits[:1], model(source[:1], target[:1]))


def test_a_layout_of_ones_own_overrides_the_padding_id():
    model = build()
    ids = torch.tensor([[3, PADDING, 5]])
    seen = model.encode(ids, Padded.like(ids)).states[0]
    assert not torch.allclose(seen, model.encode(ids).states[0])


IDS = torch.ones(2, 5, dtype=torch.int64)
REFUSED = {
    "source must be padded (B, T) with at least one token, got (2, 0)": lambda m: m(IDS[:, :0], IDS),
    "target must be padded (B, T) with at least one token, got (2, 0)": lambda m: m(IDS, IDS[:, :0]),
    "source must be padded (B, T) with at least one token, got (0, 5)": lambda m: m(IDS[:0], IDS[:0]),
    "source must be padded (B, T) with at least one token, got (5,)": lambda m: m(IDS[0], IDS),
    "source must be packed (N) with at least one token, got (2, 5)": lambda m: m(IDS, IDS, Packed.from_lengths([5, 5])),
    "source must be ids of dtype int64 or int32, got torch.float32": lambda m: m(IDS.float(), IDS),
    "tokens must be padded (B, T) with at least one token, got (2, 0)": lambda m: m.step(
        IDS[:, :0], m.start(m.encode(IDS))
    ),
    "there must be as many targets as sources, got 1 and 2": lambda m: m(IDS, IDS[:1]),
    "memory must be the output of encode, got Tensor": lambda m: m.decode(IDS, IDS),
    "source must have the shape of its layout, (2, 4), got (2, 5)": lambda m: m(IDS, IDS, Padded.like(IDS[:, :4])),
    "learned positions end at 4, got a sequence of 5 tokens": lambda m: m(IDS, IDS),
}


@pytest.mark.plain
@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_is_no_sentence_is_refused(call, request):
    with pytest.raises(TensorError) as error:
        call(build(positions="learned", max_length=4 if "learned" in request.node.callspec.id else 9))
    assert error.value.message == request.node.callspec.id


@pytest.mark.plain
def test_vocabularies_that_cannot_be():
    with pytest.raises(OptionError, match="a vocabulary needs at least one word, got 0 source"):
        Transformer(SMALL, 0)
    with pytest.raises(OptionError, match="a Transformer is built from a TransformerConfig, got Recipe"):
        Transformer(load_recipe("tiny"), 100)
    with pytest.raises(OptionError, match="tie = 'all' needs one joint vocabulary, got 11 source and 13 target"):
        Transformer(SMALL, (11, 13))


@pytest.mark.plain
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"positions": "rotary", "norm": "pre", "window": (1, 1), "drop_path": 0.2}], ids=str
)
def test_no_value_of_a_tensor_is_ever_read(packed, options):
    """Fake tensors have shapes and dtypes but no values: whoever looks at one fails."""
    sources, targets = draw_pairs([(7, 5), (3, 4)])
    given = (torch.cat(sources), torch.cat(targets), Packed.from_lengths([7, 3]), Packed.from_lengths([5, 4]))
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        model = Transformer(replace(SMALL, **options), WORDS)
        if packed:
            layouts = [
                Packed(*(fake.from_tensor(x) for x in (p.offsets, p.rows, p.positions)), p.longest) for p in given[2:]
            ]
            logits = model(fake.from_tensor(given[0]), fake.from_tensor(given[1]), *layouts)
        else:
            logits = model(fake.from_tensor(pad(sources)), fake.from_tensor(pad(targets)))
        logits.sum().backward()
