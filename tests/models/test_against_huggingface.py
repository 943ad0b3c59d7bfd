"""With random weights of Hugging Face's models, ours compute what theirs do: Marian, BERT and ViT."""

from functools import partial

import pytest
import torch
from torch import nn

from manyheads.models import Transformer, TransformerConfig
from manyheads.nn import Encoder, EncoderBlock, FeedForward, MultiHeadAttention, Padded, PostNorm, PreNorm
from weights import assert_same, load, load_attention, load_feedforward, load_norms, randomise

transformers = pytest.importorskip("transformers")

WIDTH, HEADS, HIDDEN = 32, 4, 64
SOURCE_WORDS, TARGET_WORDS = 53, 41
START = 7

with_both_kernels = pytest.mark.parametrize("kernel", ["eager", "sdpa"])
with_every_sharing = pytest.mark.parametrize("tie", ["all", "target"])


@with_both_kernels
@with_every_sharing
@torch.no_grad()
def test_marian_gives_the_same_logits(tie, kernel):
    theirs = marian(tie, kernel)
    ours = transformer_like_marian(theirs, tie)
    source, keep = padded_ids()
    target = torch.randint(TARGET_WORDS, (len(source), 9))

    expected = theirs(source, keep.long(), decoder_input_ids=target)
    memory = ours.encode(source, Padded.like(source, keep=keep))
    assert_same(memory.states[-1], expected.encoder_last_hidden_state)
    assert_same(ours.decode(target, memory), expected.logits)


@torch.no_grad()
def test_marian_gives_the_same_weights():
    theirs = marian("all", kernel="eager")
    ours = transformer_like_marian(theirs, "all")
    source, keep = padded_ids()
    target = torch.randint(TARGET_WORDS, (len(source), 9))

    expected = theirs(source, keep.long(), decoder_input_ids=target, output_attentions=True)
    encoder, decoder, cross = [], [], []
    memory = ours.encode(source, Padded.like(source, keep=keep), encoder)
    ours.decode(target, memory, weights=decoder, cross_weights=cross)
    assert_all_same(encoder, expected.encoder_attentions)
    assert_all_same(decoder, expected.decoder_attentions)
    assert_all_same(cross, expected.cross_attentions)


@with_every_sharing
@torch.no_grad()
def test_marian_writes_the_same_tokens(tie):
    theirs = talkative(marian(tie))
    ours = transformer_like_marian(theirs, tie)
    source, keep = padded_ids()
    steps = 40

    options = {"num_beams": 1, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    expected = theirs.generate(source, attention_mask=keep.long(), max_new_tokens=steps, **options)
    tokens, logits = write_greedily(ours, ours.encode(source, Padded.like(source, keep=keep)), steps)
    assert tokens.shape == (len(source), 1 + steps)
    assert tokens.unique(dim=0).shape == tokens.shape
    assert all(row.unique().numel() > 5 for row in tokens)
    assert tokens.tolist() == expected.sequences.tolist()
    assert_all_same(logits, expected.logits)


@torch.no_grad()
def test_bert_has_the_same_states_and_weights():
    theirs = bert()
    ours = encoder_like_bert(theirs)
    ids, keep = padded_ids()

    expected = theirs(ids, keep.long(), output_hidden_states=True, output_attentions=True)
    embedded = theirs.embeddings(ids)
    layout = Padded.like(ids, keep=keep)
    weights = []
    explicit = ours.states(embedded, layout, weights)
    assert_all_same(weights, expected.attentions)
    assert_all_same(explicit, expected.hidden_states[1:])
    assert_all_same(ours.states(embedded, layout), expected.hidden_states[1:])
    assert_same(ours(embedded, layout), expected.last_hidden_state)


@with_both_kernels
@pytest.mark.parametrize("bias", [False, True], ids=["no-qkv-bias", "qkv-bias"])
@torch.no_grad()
def test_vit_has_the_same_states(bias, kernel):
    theirs = vit(bias, kernel)
    ours = encoder_like_vit(theirs)
    images = torch.randn(3, 3, 16, 16)

    expected = theirs(images, output_hidden_states=True)
    embedded = theirs.embeddings(images)
    layout = Padded.like(embedded)
    assert_all_same(ours.states(embedded, layout), expected.hidden_states[1:])
    assert_same(ours(embedded, layout), expected.last_hidden_state)


def assert_all_same(ours, theirs):
    for got, wanted in zip(ours, theirs, strict=True):
        assert_same(got, wanted)


def padded_ids():
    """Random ids and which of them to keep. Any id may stand anywhere: what is padding, the layout alone says."""
    keep = torch.arange(11) < torch.tensor([7, 11, 1, 4])[:, None]
    return torch.randint(SOURCE_WORDS, keep.shape), keep


def write_greedily(model, memory, steps):
    """Step by step with a cache, always the likeliest token: all tokens, and the logits of each step."""
    cache = model.start(memory)
    tokens, logits = [torch.full((memory.layout.batch,), START)], []
    for _ in range(steps):
        logits.append(model.step(tokens[-1][:, None], cache)[:, -1])
        tokens.append(logits[-1].argmax(-1))
    return torch.stack(tokens, dim=1), logits


def marian(tie, kernel="sdpa"):
    """Without an end of sentence, so that it writes as long as it is asked to."""
    config = transformers.MarianConfig(
        vocab_size=SOURCE_WORDS,
        decoder_vocab_size=SOURCE_WORDS if tie == "all" else TARGET_WORDS,
        share_encoder_decoder_embeddings=tie == "all",
        d_model=WIDTH,
        encoder_layers=3,
        decoder_layers=2,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=HIDDEN,
        decoder_ffn_dim=HIDDEN,
        activation_function="swish",
        scale_embedding=True,
        max_position_embeddings=64,
        pad_token_id=START,
        decoder_start_token_id=START,
        eos_token_id=None,
        forced_eos_token_id=None,
        attn_implementation=kernel,
    )
    return randomise(transformers.MarianMTModel(config)).eval()


@torch.no_grad()
def talkative(marian):
    """With other weights, for a random Marian repeats one word: its output is its own embedding."""
    randomise(marian, std=0.1)
    torch.manual_seed(7)
    marian.model.decoder.layers[-1].final_layer_norm.weight.normal_()
    return marian


def bert():
    config = transformers.BertConfig(
        vocab_size=SOURCE_WORDS,
        hidden_size=WIDTH,
        num_hidden_layers=3,
        num_attention_heads=HEADS,
        intermediate_size=HIDDEN,
        max_position_embeddings=16,
        attn_implementation="eager",
    )
    return randomise(transformers.BertModel(config)).eval()


def vit(bias, kernel):
    config = transformers.ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=3,
        num_attention_heads=HEADS,
        intermediate_size=HIDDEN,
        image_size=16,
        patch_size=4,
        qkv_bias=bias,
        attn_implementation=kernel,
    )
    return randomise(transformers.ViTModel(config)).eval()


def transformer_like_marian(theirs, tie):
    config = TransformerConfig(
        width=WIDTH,
        layers=3,
        decoder_layers=2,
        heads=HEADS,
        feedforward=HIDDEN,
        activation="silu",
        norm="post",
        positions="sinusoidal-split",
        bias=True,
        tie=tie,
    )
    ours = Transformer(config, SOURCE_WORDS if tie == "all" else (SOURCE_WORDS, TARGET_WORDS))
    load(ours.words, theirs.model.encoder.embed_tokens)
    load(ours.target_words or ours.words, theirs.model.decoder.embed_tokens)
    assert torch.equal((ours.target_words or ours.words).weight, theirs.lm_head.weight)
    for block, layer in zip(ours.encoder.blocks, theirs.model.encoder.layers, strict=True):
        load_marian_attention(block.attention, layer.self_attn)
        load_feedforward(block.feedforward, layer.fc1, layer.fc2)
        load_norms(block, layer.self_attn_layer_norm, layer.final_layer_norm)
    for block, layer in zip(ours.decoder.blocks, theirs.model.decoder.layers, strict=True):
        load_marian_attention(block.attention, layer.self_attn)
        load_marian_attention(block.cross, layer.encoder_attn)
        load_feedforward(block.feedforward, layer.fc1, layer.fc2)
        load_norms(block, layer.self_attn_layer_norm, layer.final_layer_norm, cross=layer.encoder_attn_layer_norm)
    return ours.eval()


def load_marian_attention(ours, theirs):
    load_attention(ours, theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.out_proj)


def encoder_like_bert(theirs):
    ours = build_encoder(theirs.config, PostNorm, nn.Identity())
    for block, layer in zip(ours.blocks, theirs.encoder.layer, strict=True):
        projections, output = layer.attention.self, layer.attention.output
        load_attention(block.attention, projections.query, projections.key, projections.value, output.dense)
        load_feedforward(block.feedforward, layer.intermediate.dense, layer.output.dense)
        load_norms(block, output.LayerNorm, layer.output.LayerNorm)
    return ours


def encoder_like_vit(theirs):
    config = theirs.config
    ours = build_encoder(config, PreNorm, nn.LayerNorm(WIDTH, eps=config.layer_norm_eps), bias=config.qkv_bias)
    for block, layer in zip(ours.blocks, theirs.layers, strict=True):
        attention = layer.attention
        load_attention(block.attention, attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
        load_feedforward(block.feedforward, layer.mlp.fc1, layer.mlp.fc2)
        load_norms(block, layer.layernorm_before, layer.layernorm_after)
    load(ours.norm, theirs.layernorm)
    return ours


def build_encoder(config, residual, last_norm, *, bias=True):
    """An encoder in the shape of a BERT or a ViT."""
    norm = partial(nn.LayerNorm, WIDTH, eps=config.layer_norm_eps)
    blocks = [
        EncoderBlock(
            MultiHeadAttention(WIDTH, HEADS, bias=bias, output_bias=True),
            FeedForward(WIDTH, HIDDEN, activation="gelu"),
            partial(residual, norm),
        )
        for _ in range(config.num_hidden_layers)
    ]
    return Encoder(blocks, last_norm).eval()
