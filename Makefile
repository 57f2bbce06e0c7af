# Everything a fresh machine needs: `make demo`, `make test`. The rest is for who changes the code.

PYTHON ?= python3
VENV ?= .venv
# Which Taichi backend the tests run on: cpu, cuda, vulkan, metal.
TIREMOTE_TEST_ARCH ?= cpu
export TIREMOTE_TEST_ARCH
# Of `make soak`.
SECONDS ?= 180
SEED ?=
# Of `make bench`: the groups to measure, all where none is named, and how often; its environment has the peers in it.
BENCH ?=
ROUNDS ?= 7
BENCH_VENV ?= .venv-bench

BIN := $(VENV)/bin
# Made last by an installation that went through; holds the folder that was installed from.
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test features soak bench lint format wheel-check clean FORCE

help:
	@echo "make demo         a local worker, the quick start and its hot reload, with timings"
	@echo "make test         every test but the slow ones and those of the feature table (TIREMOTE_TEST_ARCH=cuda, PYTEST_ARGS='-x -k fetch')"
	@echo "make features     the feature table in README.md, on every runtime, written anew from what its tests find"
	@echo "make soak         random faults against a model, for SECONDS=$(SECONDS), of SEED=... or a new one"
	@echo "make bench        docs/performance.md, measured anew beside floors and peers (BENCH=calls, ROUNDS=$(ROUNDS), TIREMOTE_BENCH_ARCH=cuda)"
	@echo "make lint         ruff, mypy and the import rules"
	@echo "make format       let ruff rewrite what it can"
	@echo "make wheel-check  build the wheel and try it where no Taichi is"
	@echo "make clean        remove $(VENV), builds and caches"
	@echo "Each makes $(VENV) first if it is missing or stale, from PYTHON=$(PYTHON) (3.11 to 3.13)."

demo: $(STAMP)
	@"$(BIN)/tiremote" demo

test: $(STAMP)
	@"$(BIN)/python" -m pytest -m "not slow and not soak and not feature" $(PYTEST_ARGS)

# A test that fails is a cross in the table, and a failure of `make`.
features: export TIREMOTE_FEATURES = .features.json
features: $(STAMP)
	@"$(BIN)/python" -m pytest tests/features $(PYTEST_ARGS); status=$$?; \
	PYTHONPATH=tests "$(BIN)/python" -m features.table "$$TIREMOTE_FEATURES" README.md && exit $$status

soak: export TIREMOTE_SOAK_SECONDS = $(SECONDS)
soak: export TIREMOTE_SOAK_SEED = $(SEED)
soak: $(STAMP)
	@"$(BIN)/python" -m pytest -m soak -s $(PYTEST_ARGS)

bench: $(BENCH_VENV)/.installed
	@PYTHONPATH=benchmarks:tests "$(BENCH_VENV)/bin/python" -m bench $(BENCH) --rounds $(ROUNDS)

lint: $(STAMP)
	"$(BIN)/ruff" check
	"$(BIN)/ruff" format --check
	"$(BIN)/mypy"
	"$(BIN)/lint-imports" --no-logo

format: $(STAMP)
	"$(BIN)/ruff" check --fix
	"$(BIN)/ruff" format

wheel-check: $(STAMP)
	@bash .ci/wheel-check "$(BIN)/python"

clean:
	rm -rf "$(VENV)" "$(BENCH_VENV)" build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage
	find protocol worker repl tests -type d -name __pycache__ -exec rm -rf {} +

# The environment is made anew when its installation never ended, the folder moved, or PYTHON was given and is another
# version; when only pyproject.toml changed, it is installed into again.
ifneq ($(shell cat "$(STAMP)" 2>/dev/null),$(CURDIR))
ANEW := yes
endif
ifneq ($(origin PYTHON),file)
ifneq ($(shell { "$(BIN)/python" -V; } 2>/dev/null),$(shell { "$(PYTHON)" -V; } 2>/dev/null))
ANEW := yes
endif
endif

$(STAMP): pyproject.toml $(if $(ANEW),FORCE)
ifdef ANEW
	@command -v "$(PYTHON)" >/dev/null || { \
	    echo "tiremote needs Python 3.11 or newer, and there is no '$(PYTHON)': make PYTHON=python3.11 ..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "tiremote needs Python 3.11 or newer, and '$(PYTHON)' is $$("$(PYTHON)" -V 2>&1): make PYTHON=python3.11 ..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info >= (3, 14))' || { \
	    echo "Taichi, which the worker needs, comes for Python up to 3.13, and '$(PYTHON)' is $$("$(PYTHON)" -V): make PYTHON=python3.13 ..." >&2; exit 1; }
	@echo "Making $(VENV) with $$("$(PYTHON)" -V)"
	@rm -f "$@"
	@"$(PYTHON)" -m venv --clear "$(VENV)"
endif
	@echo "Installing tiremote and its worker with every runtime into $(VENV) (some 300 MB the first time) ..."
	@rm -f "$@"
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check -e '.[worker,gstaichi,quadrants,dev]'
	@printf '%s\n' "$(CURDIR)" >"$@"
	@echo "Installed."

# What is measured beside tiremote is never in the environment that the tests run in.
$(BENCH_VENV)/.installed: pyproject.toml
	@echo "Installing tiremote, its worker and its peers into $(BENCH_VENV) (some 700 MB the first time) ..."
	@rm -f "$@"
	@"$(PYTHON)" -m venv "$(BENCH_VENV)"
	@"$(BENCH_VENV)/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[worker,bench]'
	@touch "$@"
	@echo "Installed."
