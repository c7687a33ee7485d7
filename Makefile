# Everything a contributor runs. The virtual environment is made once and again
# only when pyproject.toml or constraints-dev.txt change.

PYTHON ?= python3
WORKERS ?= 2
MINUTES ?= 5
VENV := .venv
BIN := $(VENV)/bin
# uv takes a quarter of pip's time, but does not know pip's settings, such as a company's index: where it fails, pip follows.
# PyTorch comes by pip, whose settings may name an index of builds for the CPU.
PIP := $(BIN)/python -m pip install --quiet --no-compile -c constraints-dev.txt
COMMA := ,
install = $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints-dev.txt -e ".[$(1)]" || $(PIP) -e ".[$(1)]"
FAST = $$(grep -rL --include='test_*.py' 'pytest.mark.slow' tests)

# Packages are installed without bytecode, so the first import has to leave it for the next process: without it PyTorch
# takes three times as long, and containers often forbid it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo check test lint types pytest minimum newest generated soak mutate audit bench docs package release clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## build .venv with the package and the development tools

$(VENV)/.installed: pyproject.toml constraints-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch uv
	$(call install,all$(COMMA)dev)
	@touch $@

demo: setup ## compare three methods on coloured digits: a sweep, its table, a report page (no download)
	$(BIN)/momentalign sweep colored-digits --algorithms erm,fishr,cma-momentum --trials 5 --hparams 1 --select extrapolated --out runs/demo
	$(BIN)/momentalign report runs/demo -o runs/report.html

check: lint types ## lint, types and the fast tests: under a minute
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n $(WORKERS) $(FAST)

test: lint types pytest ## lint, types, tests, doctests, README snippets

lint: setup ## formatting and lint rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup ## strict type check of src and examples
	$(BIN)/mypy

# One thread a worker: two workers with a thread pool each would fight over the cores.
pytest: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS)

.venv-min/.installed: pyproject.toml constraints-min.txt
	test -x .venv-min/bin/python || $(PYTHON) -m venv .venv-min
	.venv-min/bin/python -m pip install --quiet --no-compile -c constraints-min.txt torch uv
	.venv-min/bin/uv pip install --quiet --python .venv-min/bin/python -c constraints-min.txt -e ".[all,dev]"
	@touch $@

# Old releases warn of each other's future, which is past.
minimum: .venv-min/.installed ## the fast tests with the lowest versions that the package allows, in .venv-min
	OMP_NUM_THREADS=1 .venv-min/bin/pytest -q -n $(WORKERS) -W default::DeprecationWarning -W default::FutureWarning $(FAST)

.venv-new/.installed: pyproject.toml
	test -x .venv-new/bin/python || $(PYTHON) -m venv .venv-new
	.venv-new/bin/python -m pip install --quiet --no-compile torch uv
	.venv-new/bin/uv pip install --quiet --python .venv-new/bin/python -e ".[all,dev]"
	@touch $@

newest: .venv-new/.installed ## the fast tests with the newest versions that there are, in .venv-new
	OMP_NUM_THREADS=1 .venv-new/bin/pytest -q -n $(WORKERS) $(FAST)

generated: setup ## ten thousand generated cases, and what became of them
	MOMENTALIGN_CASES=long OMP_NUM_THREADS=1 $(BIN)/pytest -q -n $(WORKERS) -o faulthandler_timeout=0 tests/generated

soak: setup ## kills, full disks, torn files, lost workers for MINUTES minutes, and what survived
	$(BIN)/python -m tests.soak --minutes $(MINUTES)

$(VENV)/.installed-mutation: $(VENV)/.installed
	$(call install,all$(COMMA)dev$(COMMA)mutation)
	@touch $@

mutate: $(VENV)/.installed-mutation ## the share of small bugs that the tests notice, package by package
	$(BIN)/python -m tools.mutation

$(VENV)/.installed-audit: $(VENV)/.installed
	$(call install,all$(COMMA)dev$(COMMA)audit)
	@touch $@

audit: $(VENV)/.installed-audit ## unsafe calls in our code, and known holes in the versions of constraints-dev.txt
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml src
	@mkdir -p build
	@$(BIN)/pip-audit --strict --no-deps --disable-pip --progress-spinner off -r constraints-dev.txt >build/audit.log 2>&1 \
		|| { tail -n 20 build/audit.log; ! grep -q 'could not be audited\|Connection\|[Tt]imed out' build/audit.log \
		|| echo "The versions were not audited: pip-audit cannot reach its service."; exit 1; }
	@echo "No known holes."

bench: setup ## time and memory of the penalties, as ratios within one run
	$(BIN)/momentalign bench

$(VENV)/.installed-docs: $(VENV)/.installed
	$(call install,all$(COMMA)dev$(COMMA)docs)
	@touch $@

docs: $(VENV)/.installed-docs ## build the documentation into docs/_build/html; runs the scripts of examples/
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -q -j 2 -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

$(VENV)/.installed-release: $(VENV)/.installed
	$(call install,all$(COMMA)dev$(COMMA)release)
	@touch $@

package: $(VENV)/.installed-release ## build the source archive and the wheel into dist and check them
	$(BIN)/python -m tools.release --package

release: $(VENV)/.installed-release ## check everything that a release needs, build it and tag it; uploads nothing
	$(BIN)/python -m tools.release

clean: ## remove what the other targets made, .venv included
	rm -rf $(VENV) .venv-min .venv-new docs/_build dist build .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
