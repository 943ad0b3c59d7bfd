"""Encoders alone and language models: what is shown is what they do, whichever way they are run, and what the libraries have that made them."""

import json
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from lone import PROMPT, READ, make_embedder, make_writer

from cli.command import status
from manyheads import EncoderConfig, InputError, LanguageModel, LanguageModelConfig, OptionError, TextEncoder, inspect
from manyheads.inspection.attribution import METHODS
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.flow import CELLS, flow
from manyheads.inspection.importance import importance
from manyheads.inspection.inspected import check_length
from manyheads.inspection.lens import layer_logits
from manyheads.inspection.notebook import forms_of
from manyheads.inspection.plane import choose_plane
from manyheads.inspection.readtext import read_framed
from manyheads.inspection.switches import Head, switched_off
from manyheads.inspection.trace import trace
from manyheads.nn import Padded

IDS = [5, 9, 17, 4, 22, 31, 8, 2]
SHAPE = {"width": 32, "layers": 2, "heads": 4, "feedforward": 64, "dropout": 0.3, "max_length": 32}
CHANGES = {
    "plain": {},
    "window": {"window": (2, 1)},
    "grouped": {"kv_heads": 2, "bias": False},
    "rotary, normed": {"positions": "rotary", "qk_norm": True},
    "additive": {"score": "additive"},
    "other norm": {"norm": "pre", "normaliser": "rms", "activation": "swiglu"},
    "post": {"norm": "post", "positions": "sinusoidal"},
}


def shaken(model):
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model  # in training, as it may be handed in


@pytest.fixture(params=CHANGES.values(), ids=CHANGES.keys())
def encoder(request):
    return shaken(TextEncoder(EncoderConfig(**(SHAPE | request.param)), 40))


@pytest.fixture(params=CHANGES.values(), ids=CHANGES.keys())
def decoder(request):
    return shaken(LanguageModel(LanguageModelConfig(**(SHAPE | request.param)), 40))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return make_embedder(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return make_writer(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="module")
def read(bert):
    return inspect(bert[0], READ)


@pytest.fixture(scope="module")
def continued(gpt2):
    return inspect(gpt2[0], PROMPT, tokens=6)


# ── one pass ────────────────────────────────────────────────────────────────────────────────────────────────────────


def assert_honest(layers):
    for attended in layers:
        inside = attended.inside()
        assert (attended.weights.sum(-1) - 1).abs().max() <= 1e-5
        assert (attended.weights[:, ~inside.seen] == 0).all()
        assert (attended.weights[:, inside.seen] > 0).all()
        assert torch.equal(inside.weights, attended.weights)


@torch.no_grad()
def test_an_encoder_gives_what_it_gives_by_the_fast_path(encoder):
    found = trace(encoder, IDS, [])
    assert encoder.training
    fast = encoder.eval()(torch.tensor([IDS]))[0]
    assert (found.output - fast).abs().max() <= 1e-5
    assert (encoder.encoder.norm(found.states[-1]) - found.output).abs().max() <= 1e-5
    assert list(found.weights()) == ["encoder"]
    assert_honest(found.encoder)


@torch.no_grad()
def test_a_language_model_gives_what_it_gives_step_by_step(decoder):
    found = trace(decoder, [], IDS)
    fast = decoder.eval()(torch.tensor([IDS]))[0]
    assert (found.logits - fast).abs().max() <= 1e-5
    assert torch.equal(found.logits.argmax(-1), fast.argmax(-1))
    assert list(found.weights()) == ["decoder"]
    assert_honest(found.decoder)
    assert all((layer.weights.triu(1) == 0).all() for layer in found.decoder)
    past = decoder.start()
    for step, token in enumerate(IDS):
        weights = []
        logits = decoder.step(torch.tensor([[token]]), past, weights)
        assert (logits[0, 0] - found.logits[step]).abs().max() <= 1e-5
        for layer, attended in enumerate(found.decoder):
            assert (weights[layer][0, :, 0] - attended.weights[:, step, : step + 1]).abs().max() <= 1e-5


@torch.no_grad()
def test_weights_and_states_are_those_of_hugging_face(bert, gpt2, read, continued):
    theirs = bert[1](torch.tensor([read.ids("source")]), output_attentions=True, output_hidden_states=True)
    ids = torch.tensor([continued.ids("target")[:-1]])
    also = gpt2[1](ids, output_attentions=True, output_hidden_states=True)
    for found, expected in ((read.attention["encoder"], theirs), (continued.attention["decoder"], also)):
        for ours, other in zip(found, expected.attentions, strict=True):
            assert (ours - other[0]).abs().max() <= 1e-5
    assert (read.trace.output - theirs.last_hidden_state[0]).abs().max() <= 1e-4
    assert (continued.trace.logits - also.logits[0]).abs().max() <= 1e-4


# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_keeps_what_its_pieces_have_lost(read):
    assert read.source.text == READ
    assert [piece.text for piece in read.source.pieces][:4] == ["[CLS]", "dog", "##s", "[UNK]"]
    assert [word.text for word in read.source.words] == ["[CLS]", "Dogs", ",", "a", "BÄD", "café", "!", "[SEP]"]
    assert [word.special for word in read.source.words] == [True, *[False] * 6, True]


@given(st.text(st.sampled_from("abdgosÄé. 🙂[]CLSEP"), min_size=1, max_size=16).filter(str.strip))
def test_pieces_lie_where_their_letters_are(bert, text):
    """A piece is its stretch of the text, normalised; stretches follow each other."""
    side = read_framed(bert[0], text)
    assert [piece.text for piece in side.pieces][:: len(side.pieces) - 1] == ["[CLS]", "[SEP]"]
    before = 0
    for piece in side.pieces:
        assert before <= piece.start <= piece.end <= len(text)
        before = piece.end
        plain = "".join(c for c in unicodedata.normalize("NFD", text[piece.start : piece.end].lower()) if not unicodedata.combining(c))  # fmt: skip
        if not piece.text.startswith("["):
            assert piece.text.removeprefix("##") == plain


def test_a_prompt_is_gone_on_with_as_the_writer_does(gpt2, continued):
    writer = gpt2[0]
    assert continued.continuation == writer(PROMPT, temperature=0, tokens=6)
    assert continued.text == PROMPT + continued.continuation
    assert continued.given == len(writer.read(PROMPT))
    assert not continued.forced
    assert all(choice.rank == 0 for choice in continued.choices[continued.given - 1 :])
    assert any(piece.text == " dog" for piece in continued.target.pieces)  # as it is spelt, not as it is stored
    spelt = make_bundle(continued).header["spelling"]["target"]["bytes"]
    assert bytes.fromhex("".join(spelt)).decode(errors="replace") == continued.text


def test_a_text_that_is_only_read_is_as_likely_as_the_writer_says(gpt2):
    writer = gpt2[0]
    read = inspect(writer, "", PROMPT)
    expected = next(iter(writer.score([PROMPT])))
    assert read.forced
    assert read.text == read.continuation == PROMPT
    assert read.log_probability == pytest.approx(expected.log_probability, abs=1e-4)
    assert read.score == pytest.approx(expected.log_probability, abs=1e-4)
    behind = inspect(writer, PROMPT, " upon a sofa")
    assert behind.text == PROMPT + " upon a sofa"
    assert behind.score == pytest.approx(sum(choice.log_probability for choice in behind.choices[behind.given - 1 :]))


@torch.no_grad()
def test_every_layer_is_read_as_the_last_one_is(gpt2, continued):
    model, found = gpt2[0].model, continued.trace
    assert torch.allclose(layer_logits(model, found.states[-1]), found.logits, atol=1e-5)
    lens = make_bundle(continued).header["lens"]["layers"]
    last = found.logits.log_softmax(-1)
    for t, step in enumerate(lens[-1]):
        assert step["candidates"][0]["id"] == int(last[t].argmax())
        assert step["log_probability"] == pytest.approx(float(last[t, continued.ids("target")[t + 1]]), abs=1e-4)


# ── what is told ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_json_has_what_there_is_and_nothing_else(read, continued):
    told = [json.loads(json.dumps(one.as_json())) for one in (read, continued)]
    assert list(told[0]) == ["schema", "source", "attention"]
    assert list(told[1]) == ["schema", "target", "continuation", "given", "score", "log_probability", "forced", "steps", "attention"]  # fmt: skip
    assert [list(one["attention"]) for one in told] == [["encoder"], ["decoder"]]
    for one, found in zip(told, (read, continued), strict=True):
        for kind, layers in found.attention.items():
            np.testing.assert_allclose(one["attention"][kind], np.stack([layer.numpy() for layer in layers]))


def test_heads_that_look_at_begin_and_end_are_known_as_such(read):
    found = make_bundle(read).header["heads"]["encoder"]
    for layer, weights in zip(found, read.attention["encoder"], strict=True):
        np.testing.assert_allclose(layer["ends"], weights[:, :, [0, -1]].sum(-1).mean(-1), atol=1e-6)


def test_the_plane_that_is_drawn_is_that_of_the_only_kind(read, continued):
    for found, kind in ((read, "encoder"), (continued, "decoder")):
        plane = choose_plane(found, pieces=True)
        assert (plane.kind, plane.layer, plane.head) == (kind, 2, None)
        np.testing.assert_allclose(plane.weights, found.attention[kind][2].double().mean(0), atol=1e-7)
        with pytest.raises(OptionError, match="attention must be one of"):
            choose_plane(found, "cross")


@pytest.mark.parametrize("view", ["matrix", "lines", "map"])
def test_pictures(read, continued, tmp_path, view):
    for found in (read, continued):
        text = found.save(tmp_path / "picture.svg", view=view).read_text()
        assert "layer 2, mean of heads" in text or view == "map"
        assert ("BÄD" if found is read else "slept") in text


def test_a_notebook_shows_the_page(read, continued):
    for found in (read, continued):
        forms = forms_of(found)
        assert set(forms) == {"text/plain", "text/html"}
        assert forms["text/plain"] == found.texts[0]


def test_a_page_that_is_too_large_keeps_the_last_layer(continued):
    bundle = make_bundle(continued, 15_000)
    assert "all layers but decoder 2" in bundle.header["left_out"][0]
    assert "decoder/2/q" in bundle.planes
    assert "decoder/1/q" not in bundle.planes


# ── without heads ───────────────────────────────────────────────────────────────────────────────────────────────────


@torch.no_grad()
def test_what_a_head_does_is_what_is_lost_without_it(gpt2, continued):
    model, ids = gpt2[0].model, torch.tensor([continued.ids("target")])
    found = importance(continued)
    assert len(found) == 3 * 4

    def log_p():
        return float(model(ids[:, :-1])[0].double().log_softmax(-1).gather(-1, ids[0, 1:, None]).sum())

    whole = log_p()
    assert whole == pytest.approx(continued.log_probability, abs=1e-4)
    for head, change in found.items():
        with switched_off(model, [head]):
            assert log_p() - whole == pytest.approx(change, abs=1e-3)


@pytest.mark.parametrize("instead", ["zero", "mean"])
def test_heads_can_be_off(bert, gpt2, read, instead):
    head = Head("encoder", 1, 2)
    off = inspect(bert[0], READ, off=[head], instead=instead)
    assert torch.equal(
        off.attention["encoder"][1], read.attention["encoder"][1]
    )  # what it gives is gone, not where it looks
    assert not torch.allclose(off.attention["encoder"][2], read.attention["encoder"][2])
    assert (off.off_means() is None) == (instead == "zero")
    assert make_bundle(off).header["off"] == (head,)
    assert inspect(gpt2[0], PROMPT, off=[Head("decoder", 0, 0)], tokens=2, instead=instead).off
    with pytest.raises(OptionError, match=r"must exist in the model, got cross 0\.0"):
        inspect(bert[0], READ, off=[Head("cross", 0, 0)])


# ── what is owed ────────────────────────────────────────────────────────────────────────────────────────────────────


def written(model, vectors, ids):
    """log P of each piece behind the first, of vectors in the place of words."""
    hook = model.words.register_forward_hook(lambda *_: vectors)
    try:
        logits = model(ids[:, :-1])[0]
    finally:
        hook.remove()
    return logits.double().log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]


def test_leaving_out_a_word_by_hand(gpt2, continued):
    model, ids = gpt2[0].model, torch.tensor([continued.ids("target")])
    vectors = model.words.weight[ids[:, :-1]].detach()
    found = continued.attribute("leave-one-out")
    with torch.no_grad():
        whole = written(model, vectors, ids)
        for n in range(vectors.shape[1]):
            without = vectors.clone()
            without[0, n] = 0
            expected = whole - written(model, without, ids)
            expected[:n] = 0
            np.testing.assert_allclose(found.target[:, n], expected, atol=1e-4)
    assert list(found.owed) == list(found.agreement) == ["target"]


def test_slopes_by_hand_and_their_path(gpt2, continued):
    model, ids = gpt2[0].model, torch.tensor([continued.ids("target")])
    vectors = model.words.weight[ids[:, :-1]].detach().requires_grad_()
    found = continued.attribute("gradient-x-input")
    for t in range(vectors.shape[1]):
        (slope,) = torch.autograd.grad(written(model, vectors, ids)[t], vectors)
        np.testing.assert_allclose(found.target[t], (slope * vectors)[0].sum(-1).detach(), atol=1e-4)
    path = continued.attribute("integrated-gradients")
    missed = np.abs(path.target.sum(1) - np.array(path.whole))
    assert missed.max() <= path.gap + 1e-4


@torch.no_grad()
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_value_zeroing_by_hand(read, continued, kind):
    """Each layer once more, its attention written out, with one value after the other set to 0."""
    inspection = read if kind == "encoder" else continued
    found, shares = inspection.attribute("value-zeroing"), []
    blocks = getattr(inspection.model, kind).blocks
    states = [inspection.trace.layers[kind][0], *inspection.trace.states]
    for layer, (block, attended) in enumerate(zip(blocks, inspection.trace.layers[kind], strict=True)):
        inside, rows = attended.inside(), attended.weights.shape[1]
        entry = embedded_of(inspection, kind) if layer == 0 else states[layer][None]
        changes = torch.zeros(rows, rows, dtype=torch.double)
        whole = by_hand(block, attended.attention, inside, inside.v, entry)
        assert torch.allclose(whole, states[layer + 1], atol=1e-4)
        for n in range(rows):
            value = inside.v.clone()
            value[:, n] = 0
            changed = by_hand(block, attended.attention, inside, value, entry)
            changes[:, n] = 1 - F.cosine_similarity(changed.double(), whole.double(), dim=-1)
        changes = changes.tril() if kind == "decoder" else changes
        shares.append(changes / changes.sum(-1, keepdim=True))
    np.testing.assert_allclose(found.owed[inspection_side(kind)], torch.stack(shares).mean(0), atol=1e-4)


def inspection_side(kind):
    return {"encoder": "source", "decoder": "target"}[kind]


def embedded_of(inspection, kind):
    source, target = (torch.tensor([ids]) for ids in inspection.read_ids())
    caught = []
    hook = getattr(inspection.model, kind).blocks[0].register_forward_pre_hook(lambda _, args: caught.append(args[0]))
    inspection.model(source if kind == "encoder" else target)
    hook.remove()
    return caught[0]


def by_hand(block, attention, inside, value, x):
    def attend(_):
        return attention.output((inside.weights @ value).transpose(0, 1).flatten(1))[None]

    layout = Padded.like(x)
    return block.around_feedforward(block.around_attention(x, attend, layout), block.feedforward, layout)[0]


def test_who_writes_nothing_owes_nothing_by_slopes(read):
    for method in METHODS:
        if method == "value-zeroing":
            assert read.attribute(method).source.sum(1) == pytest.approx(np.ones(len(read.source.pieces)))
        else:
            with pytest.raises(OptionError, match="needs a model that writes"):
                read.attribute(method)


# ── the walk ────────────────────────────────────────────────────────────────────────────────────────────────────────


@torch.no_grad()
def test_what_goes_into_the_first_block_of_a_bert(bert, read):
    embed, parts = bert[0].model.embed, flow(bert[0].model, read.ids("source"), []).source
    words = bert[0].model.words.weight[read.ids("source")]
    kind, place = embed.segments.weight[0], embed.positions.table.weight[: len(words)]
    summed = words + kind + place
    normed = F.layer_norm(summed, summed.shape[1:], embed.norm.weight, embed.norm.bias, embed.norm.eps)
    for name, expected in {"words": words, "segment": kind.expand_as(words), "position": place, "summed": summed, "embedded": normed}.items():  # fmt: skip
        np.testing.assert_allclose(parts[name][:, 0], expected.norm(dim=1), rtol=1e-4)
        np.testing.assert_allclose(parts[name][:, 1:], expected[:, :CELLS], atol=1e-5)
    assert "scaled" not in parts


def test_a_vector_goes_on_as_it_was_handed_on(encoder, decoder):
    for model, parts in ((encoder, flow(encoder, IDS, []).source), (decoder, flow(decoder, [], IDS).target)):
        before, pre = parts["embedded"], model.config.norm == "pre"
        for name in [f"{layer}/{sublayer}/" for layer in range(2) for sublayer in ("attention", "feedforward")]:
            np.testing.assert_allclose(parts[f"{name}x"], before, atol=1e-4)
            np.testing.assert_allclose(parts[f"{name}sum"][:, 1:], (parts[f"{name}x"] + parts[f"{name}y"])[:, 1:], atol=1e-4)  # fmt: skip
            before = parts[f"{name}{'sum' if pre else 'normed'}"]
        assert ("last/normed" in parts) == pre
    assert flow(encoder, IDS, []).log_sums == []
    sums = trace(decoder, [], IDS).logits.double().logsumexp(-1)
    np.testing.assert_allclose(flow(decoder, [], IDS).log_sums, sums, atol=1e-5)


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_makes_no_sense_is_refused(bert, gpt2):
    embedder, writer = bert[0], gpt2[0]
    with pytest.raises(OptionError, match="a model that can embed texts takes no beam, got 4"):
        inspect(embedder, READ, beam=4)
    with pytest.raises(OptionError, match="a model that can embed texts takes no target, got 'b'"):
        inspect(embedder, READ, "b")
    with pytest.raises(OptionError, match="a model that can generate text takes no part, got 2"):
        inspect(writer, PROMPT, part=2)
    for tokens in (0, -1, True, 1.5):
        with pytest.raises(OptionError, match="tokens must be 1 or more"):
            inspect(writer, PROMPT, tokens=tokens)
    for subject in (embedder, writer):
        with pytest.raises(InputError, match="needs a text to read"):
            inspect(subject, "  ")
    with pytest.raises(InputError, match="texts of up to 20 pieces, got one of 62"):
        inspect(embedder, "a " * 60)
    with pytest.raises(InputError, match="texts of up to 80 pieces"):
        inspect(writer, "", "dog " * 100)
    with pytest.raises(InputError, match="texts of up to 512 pieces, got one of 513"):
        check_length(513, 100_000)


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_command_looks_at_what_a_model_does(bert, gpt2, capsys, tmp_path):
    encoder, writer = (str(one[0].folder) for one in (bert, gpt2))
    page = tmp_path / "look.html"
    assert status("inspect", encoder, "--text", "a dogs", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out) == inspect(bert[0], "a dogs").as_json()
    assert (
        status("inspect", writer, "--text", PROMPT, "--tokens", "3", "--html", str(page), "--term", "--layer", "0") == 0
    )
    said = capsys.readouterr()
    assert said.out.startswith(inspect(gpt2[0], PROMPT, tokens=3).texts[0].replace("\n", "‹U+000A›")[:10])
    assert "decoder self-attention: layer 0" in said.out
    assert page.stat().st_size > 100_000
    assert status("inspect", writer, "--target", PROMPT) == 0  # a text that is only read
    capsys.readouterr()
    for words, complaint in [
        ((encoder, "--text", "a", "--data", "x.tsv"), "--data is for models that translate"),
        ((encoder, "--text", "a", "--compare", "de-en", "--html", str(page)), "--compare is for models that translate"),
        (("de-en", "--text", "a", "--compare", writer, "--html", str(page)), "--compare is for models that translate"),
        ((writer, "--text", "a", "--beam", "2"), "takes no beam"),
        ((encoder, "--text", "a", "--attention", "cross"), "attention must be one of 'encoder'"),
    ]:
        assert status("inspect", *words) == 2
        assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("task", ["embed", "generate"])
def test_what_is_served_translates(bert, gpt2, capsys, task):
    folder = {"embed": bert, "generate": gpt2}[task][0].folder
    assert status("serve", str(folder)) == 2
    assert f"a model that can translate is needed, got {folder}: its task is '{task}'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_process_of_its_own(gpt2):
    words = [sys.executable, "-m", "manyheads", "inspect", str(gpt2[0].folder), "--text", PROMPT, "--json", "-"]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout)["continuation"] == inspect(gpt2[0], PROMPT).continuation
