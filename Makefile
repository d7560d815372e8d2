# make install   ./.venv with Tacit and everything that demo and tests need, versions and hashes from requirements.lock
# make demo      the main job end to end on real data, in a terminal
# make check     formatter, linter, types, import rules
# make test      the tests, without the long ones; make test-all runs those too
# make test-flaky  every test that depends on a random draw RUNS times (100), compared with the rates that they state
# make fmt       format the code
# make documents docs/schemas, docs/vectors and the states in docs/data_model.md anew, after a change of a model, a rule,
#                a message or a table of states
# make lock      choose dependency versions anew (needs uv)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.tacit-installed

.PHONY: install demo check check-format check-lint check-types check-imports test test-all test-flaky fmt documents lock

install: $(STAMP)
	@echo "Tacit is installed in ./$(VENV); next: make demo"

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "make: Python 3.11 or newer is needed; run: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv; \
	    else echo "make: the Python module venv is missing; run: sudo apt-get install -y python3-venv" >&2; exit 1; fi; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "installing into ./$(VENV) (the first time takes a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP)
	@$(BIN)/tacit demo

check: check-format check-lint check-types check-imports

check-format: $(STAMP)
	$(BIN)/ruff format --check .

check-lint: $(STAMP)
	$(BIN)/ruff check .

check-types: $(STAMP)
	$(BIN)/mypy

check-imports: $(STAMP)
	$(BIN)/lint-imports

# One worker more than processors, since tests also wait for servers and disks, at most four; a module's tests stay
# together, so that each worker makes its fixtures once, and in the order of their folders: by their number, the few long
# ones would come last, when most workers have nothing left. A worker whose process dies ends the run: pytest-xdist would
# start another one and then wait for ever for tests that nobody has. Tests start hundreds of processes: what is compiled
# once is kept, whatever the environment says.
WORKERS = $(shell $(BIN)/python -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')
PYTEST = $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
test test-all test-flaky: export PYTHONDONTWRITEBYTECODE =

test: $(STAMP)
	$(PYTEST) -m "not slow"

test-all: $(STAMP)
	$(PYTEST) -m ""

# Each run has other seeds; then the property tests look for new examples once.
RUNS ?= 100
test-flaky: $(STAMP)
	$(PYTEST) -m "not slow" --runs $(RUNS)
	$(PYTEST) -m "hypothesis and not slow" --hypothesis-profile searching

fmt: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

documents: $(STAMP)
	$(BIN)/tacit schemas --out docs/schemas
	$(BIN)/tacit vectors --out docs/vectors
	$(BIN)/python -m infra.documents.states docs/data_model.md

# hatchling and editables are locked too, because the package itself is installed without build isolation.
lock:
	printf 'hatchling\neditables\n' | uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-annotate --no-header --extra accounting --extra demo --extra bench --extra fleet --extra hsm --extra operator --extra postgres --extra test \
	    --output-file requirements.lock pyproject.toml -
