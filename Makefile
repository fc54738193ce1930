# make demo and make test do all the set-up they need; everything lives in .venv.
PYTHON ?= $(shell scripts/python-for 3.11 || command -v python3)
BIN := .venv/bin
BENCHMARKS := calls operations trivial_calls trivial_calls_jax torch_coverage disk startup devices sweep imports exports page \
	transport trainer heldout curves
NATIVE := $(shell find native -type f) CMakeLists.txt pyproject.toml

.PHONY: demo test setup lint check check-kineto bench bench-overhead bench-correction studies clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    profile a real training run: verdict here, page in demo.html"
	@echo "make test    every test, on every supported Python found here"
	@echo "make setup   .venv with everything for development"
	@echo "make lint    ruff, mypy --strict, clang-format"
	@echo "make check-kineto  two CUDA builds of PyTorch (1.3 GB to download) read our CUPTI double as we do"
	@echo "make bench   what Cutaway costs, how fast it analyses; make bench-overhead for the table beside its peers"
	@echo "make bench-correction   how true the corrected figures are, on twelve programs"
	@echo "make studies the figures of the two papers"

.venv/pyvenv.cfg:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --upgrade pip

.venv/demo: .venv/pyvenv.cfg requirements/demo.txt
	$(BIN)/pip install -q -r requirements/demo.txt
	@touch $@

.venv/dev: .venv/demo requirements/dev.txt
	$(BIN)/pip install -q -r requirements/dev.txt
	@touch $@

.venv/built: .venv/demo $(NATIVE)
	$(BIN)/pip install -q -e .
	@touch $@

setup: .venv/dev .venv/built

demo: .venv/built
	rm -rf demo.cutaway
	$(BIN)/cutaway run -o demo.cutaway examples/sb3_ppo.py
	$(BIN)/cutaway report demo.cutaway -o demo.html

lint: setup
	$(BIN)/ruff check src tests benchmarks examples studies
	$(BIN)/ruff format --check src tests benchmarks examples studies
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $$(find native tests -name '*.h' -o -name '*.cpp' -o -name '*.c')

check: setup
	scripts/system-packages
	$(BIN)/python -m pytest

# Two halves of about the same length: what runs on the main Python, and everything else.
test: lint
	scripts/system-packages
	scripts/side-by-side "$(MAKE) check" "scripts/test-pythons && scripts/cross-compile && scripts/test-tensorflow"

check-kineto: setup
	$(BIN)/python tests/devices/check_kineto.py

bench: setup
	for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done

bench-overhead: setup
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.overhead

bench-correction: setup
	$(BIN)/python -m benchmarks.correction --figure docs/images/correction.svg
	$(BIN)/python -m benchmarks.correction --heavy --figure docs/images/correction-heavy.svg
	$(BIN)/python -m benchmarks.correction.instructions

studies: setup
	$(BIN)/python -m studies.architecture --figures docs/images

clean:
	rm -rf .venv .venv-* build demo.cutaway demo.html
