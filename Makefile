# Everything works from a fresh clone: each target first makes sure that .venv is there and up to date.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One process a core, one thread a process: two busy processes with two threads each slow one another to a crawl.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto
SHAPES := --jaxtyping-packages=manyheads.nn,manyheads.models.transformer,manyheads.models.parts,beartype.beartype

.PHONY: help setup demo test test-fast lint format bench reference clean

help:
	@echo "make setup      install the package, editable, with every extra, into $(VENV)"
	@echo "make demo       train a pronouncer here, score it, use it; translate with the bundled model"
	@echo "make test       everything: lint, and all tests with shapes checked"
	@echo "make test-fast  the tests that take a moment"
	@echo "make lint       ruff and pyrefly"
	@echo "make format     let ruff format the code"
	@echo "make bench      this project against PyTorch's own modules, as ratios"
	@echo "make reference  write docs/reference anew, from the code"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)
	rm -rf runs/demo
	$(BIN)/manyheads demo --out runs/demo

test: lint
	$(PYTEST) $(SHAPES) -m "not plain"
	$(PYTEST) -m plain

test-fast: $(READY)
	$(PYTEST) -m "not slow"

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyrefly check

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(READY)
	$(BIN)/python -m benchmarks.blocks
	$(BIN)/python -m benchmarks.windows

reference: $(READY)
	mkdir -p docs/reference
	$(BIN)/python -m manyheads.keys > docs/reference/recipe.md

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
