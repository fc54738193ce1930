# make demo and make test do all the set-up they need; everything lives in .venv.
PYTHON ?= $(shell scripts/python-for 3.11 || command -v python3 || scripts/python-for 3.14)
# What requirements/dev.txt pins has no packages for 3.14 and later: there make demo runs JAX, and make test the core tests.
NEWER := $(shell $(PYTHON) -c "import sys; print('yes' if sys.version_info >= (3, 14) else '')")
BIN := .venv/bin
BENCHMARKS := calls operations trivial_calls trivial_calls_jax torch_coverage disk startup devices sweep imports exports page \
	transport trainer heldout curves
PYTHON_SOURCES := src packages tests benchmarks examples studies workloads native $(shell grep -l "^#!.*python" scripts/*)
# The scripts of the page share one scope, so they are checked as one.
PAGE := $(wildcard src/cutaway/reports/page/*.js)
SCRIPTS := $(PAGE) $(wildcard tests/trace/*.js)
NATIVE := $(shell find native -type f) CMakeLists.txt pyproject.toml packages/balance/pyproject.toml src/cutaway/vocabulary.py src/cutaway/version.py

# pip cannot install two things into one environment at once.
.NOTPARALLEL:
.PHONY: demo docs test fresh wheels arm sanitize vllm setup lint check check-kineto bench bench-overhead bench-correction studies survey clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    profile a real training run: verdict here, page in demo.html"
	@echo "make test    every test, on every supported Python found here"
	@echo "make fresh   make demo and make test on a minimal Debian (needs root)"
	@echo "make wheels  wheels for every Python found here, tested without a compiler, in dist/ (needs root)"
	@echo "make arm     Cutaway on aarch64, under qemu: core tests, recorded programs, runs read there and here (needs root)"
	@echo "make sanitize  core tests with the address, undefined-behaviour and thread sanitizers"
	@echo "make vllm    language models with a real engine (vLLM, TRL) on the CPU; 3.3 GB to install, some minutes"
	@echo "make setup   .venv with everything for development"
	@echo "make lint    ruff, mypy --strict, import-linter, oxlint, clang-format, our own rules"
	@echo "make check-kineto  two CUDA builds of PyTorch (1.3 GB to download) read our CUPTI double as we do"
	@echo "make bench   what Cutaway costs, how fast it analyses; make bench-overhead for the table beside its peers"
	@echo "make bench-correction   how true the corrected figures are, on twelve programs"
	@echo "make docs    the documentation as a site with search, in site/"
	@echo "make studies the figures of the two papers"
	@echo "make survey  backends, algorithms, simulators, scale-up: figures and docs/survey.md"

.venv/pyvenv.cfg:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --upgrade pip

.venv/demo: .venv/pyvenv.cfg requirements/demo.txt
	$(BIN)/pip install -q -r requirements/demo.txt
	@touch $@

# Has everything of .venv/demo, so that one command installs both.
.venv/dev: .venv/pyvenv.cfg requirements/demo.txt requirements/dev.txt
	$(BIN)/pip install -q -r requirements/dev.txt
	@touch .venv/demo $@

.venv/built: .venv/pyvenv.cfg $(NATIVE)
	$(BIN)/pip install -q -e .
	$(BIN)/pip install -q --no-deps -e packages/balance -e workloads
	@touch $@

setup: .venv/dev .venv/built

demo: .venv/demo .venv/built
	rm -rf demo.cutaway
	$(BIN)/cutaway run -o demo.cutaway examples/$(if $(NEWER),jax_dqn.py --steps 40000,sb3_ppo.py)
	$(BIN)/cutaway report demo.cutaway -o demo.html

lint: setup
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/oxfmt --check $(SCRIPTS)
	mkdir -p build && cat $(PAGE) > build/page.js && $(BIN)/oxlint build/page.js tests/trace
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/style --check
	$(BIN)/clang-format --dry-run --Werror $$(find native tests -name '*.h' -o -name '*.cpp' -o -name '*.c')

check: setup
	$(BIN)/python -m pytest

# Two halves of about the same length: what runs on the main Python, and everything else.
ifneq ($(NEWER),)
test:
	@echo "On Python 3.14 and later make test runs the core tests; all tests need Python 3.11."
	scripts/test-pythons
else
test:
	scripts/system-packages
	$(MAKE) lint
	scripts/side-by-side "make check" "scripts/test-pythons && scripts/cross-compile && scripts/test-tensorflow && scripts/test-frameworks"
endif

fresh:
	scripts/fresh-machine

wheels: setup
	scripts/wheels

arm: setup
	scripts/arm

sanitize:
	scripts/sanitize

# Not part of make test: it installs 3.3 GB.
vllm: setup
	scripts/test-vllm

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

# About an hour on two quiet cores; QUICK=1 takes ten minutes. It goes on where it was stopped.
survey: setup
	scripts/system-packages
	scripts/tensorflow-environment
	scripts/frameworks-environment
	$(BIN)/python -m studies.survey $(if $(QUICK),--quick)

docs: .venv-docs/ready .venv/built
	$(BIN)/python scripts/reference
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	.venv-docs/bin/python scripts/llms site
	@echo "wrote site/; open site/index.html"

.venv-docs/ready: requirements/docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install -q -r requirements/docs.txt
	@touch $@

studies: setup
	$(BIN)/python -m studies.architecture --figures docs/images

clean:
	rm -rf .venv .venv-* build dist demo.cutaway demo.html
