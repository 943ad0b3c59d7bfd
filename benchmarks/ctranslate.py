"""A Marian of Hugging Face's as a model of CTranslate2, which searches in C++, also in 8 bits (`pip install ctranslate2`).

    python -m benchmarks.ctranslate FOLDER int8 4 2     searches with a beam of 4 and 2 threads, a line of JSON at a time

It searches in a process of its own: it brings its own OpenMP, and where that has once run, PyTorch is half as fast for
the rest of the process.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.text.tokenizer import BEGIN, END, PADDING

__all__ = ["convert", "is_installed", "searching"]


def is_installed() -> bool:
    return find_spec("ctranslate2") is not None


def convert(marian: Any, folder: Path) -> Path:
    """Write the model to a new folder. Its tokens are the numbers of ours."""
    loaders: Any = import_module("ctranslate2.converters.transformers")
    marian.config.normalize_before = marian.config.normalize_embedding = False
    # Not Marian's own: it takes the last word for padding, and begins with a vector of zeros.
    loader, bart = loaders.MarianMTLoader(), loaders.BartLoader
    loader.set_decoder = lambda spec, decoder: bart.set_decoder(loader, spec, decoder)
    spec = bart.get_model_spec(loader, marian)
    words = [str(n) for n in range(marian.config.vocab_size)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.unk_token, spec.config.eos_token = words[PADDING], words[END]
    spec.config.bos_token = spec.config.decoder_start_token = words[BEGIN]
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    folder.mkdir()
    spec.save(str(folder))
    return folder


@contextmanager
def searching(folder: Path, precision: str, beam: int) -> Iterator[Callable[[Tensor, int], list[list[int]]]]:
    """A search for sentences without padding: the ids that it writes, without the end."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.ctranslate",
        folder,
        precision,
        str(beam),
        str(torch.get_num_threads()),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answered = process.stdin, process.stdout

        def search(source: Tensor, limit: int) -> list[list[int]]:
            asked.write(json.dumps([source.tolist(), limit]) + "\n")
            return json.loads(answered.readline())

        yield search
        asked.close()


def answer(folder: str, precision: str, beam: str, threads: str) -> None:
    ctranslate2: Any = import_module("ctranslate2")
    translator = ctranslate2.Translator(folder, device="cpu", compute_type=precision, intra_threads=int(threads))
    for line in sys.stdin:
        source, limit = json.loads(line)
        found = translator.translate_batch(
            [list(map(str, ids)) for ids in source], beam_size=int(beam), max_decoding_length=limit,
            length_penalty=0.0, suppress_sequences=[[str(PADDING)], [str(BEGIN)]],
        )  # fmt: skip
        print(json.dumps([list(map(int, one.hypotheses[0])) for one in found]), flush=True)


if __name__ == "__main__":
    answer(*sys.argv[1:])
