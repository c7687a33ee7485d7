# Everything a contributor runs. The virtual environment is made once and again
# only when pyproject.toml or constraints-dev.txt change.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet -c constraints-dev.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo check test lint types pytest bench docs clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## build .venv with the package and the development tools

$(VENV)/.installed: pyproject.toml constraints-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e ".[all,dev]"
	@touch $@

demo: setup ## compare five methods on coloured digits: a sweep, its table, a report page (no download)
	$(BIN)/momentalign sweep colored-digits --algorithms erm,coral,fishr,hgp,cma --trials 2 --hparams 2 --steps 300 --out runs/demo
	$(BIN)/momentalign table runs/demo --select extrapolated
	$(BIN)/momentalign report runs/demo -o runs/report.html

check: lint types ## lint, types and the fast tests: under a minute
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n $(WORKERS) $$(grep -rL --include='test_*.py' 'pytest.mark.slow' tests)

test: lint types pytest ## lint, types, tests, doctests, README snippets, examples

lint: setup ## formatting and lint rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup ## strict type check of src and examples
	$(BIN)/mypy

# One thread a worker: two workers with a thread pool each would fight over the cores.
pytest: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS)

bench: setup ## time and memory of the penalties, as ratios within one run
	$(BIN)/momentalign bench

$(VENV)/.installed-docs: $(VENV)/.installed
	$(INSTALL) -e ".[all,dev,docs]"
	@touch $@

docs: $(VENV)/.installed-docs ## build the documentation into docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

clean: ## remove what the other targets made, .venv included
	rm -rf $(VENV) docs/_build dist build .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
