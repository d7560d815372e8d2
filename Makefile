# make install   make ./.venv with Tacit and what its demo needs, with versions and hashes from requirements.lock
# make demo      run every party and answer one question about real data, in a terminal
# make check     formatter, linter, types, import rules; first adds the tests' packages and the checkers to ./.venv
# make test      the tests, without the long ones; make test-all runs those too; first adds the tests' packages to ./.venv
# make install-test, make install-check  only add those packages
# make test-rotating  a part of the long tests, another one every day and all in a fortnight, in ten minutes
# make test-flaky  run every test that depends on a random draw RUNS times (100), against the rates that they state
# make durations record how long each file of tests lasts, by which workers share them out; MARKED=slow: the long ones
# make fmt       format the code
# make documents regenerate docs/schemas, docs/vectors, benchmarks/rows.md and a table of docs/architecture.md, after a
#                change of a model, a rule, a message, a metric, a table, a resource, states or what a process loads
# make lock      choose new dependency versions (needs uv)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.tacit-installed
FOR_TESTS := $(VENV)/.tacit-tests-installed
FOR_CHECKS := $(VENV)/.tacit-checks-installed

.PHONY: install install-test install-check demo check check-format check-lint check-types check-imports test test-all \
    test-rotating test-flaky durations fmt documents lock

install: $(STAMP)
	@echo "Tacit is installed in ./$(VENV); next: make demo"

install-test: $(FOR_TESTS)

install-check: $(FOR_CHECKS)

# A lock names only packages that the ones before it do not. Modules are compiled when they are first used, as most
# never are. An old pip compares every file of the index with every platform, for minutes, so a newer one comes first.
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check
INSTALL = $(PIP) install --no-compile --require-hashes

$(STAMP): pyproject.toml requirements-pip.lock requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "make: Python 3.11 or newer is needed; run: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv; \
	    else echo "make: the Python module venv is missing; run: sudo apt-get install -y python3-venv" >&2; exit 1; fi; }
	@echo "installing Tacit and what its demo needs into ./$(VENV)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(INSTALL) -r requirements-pip.lock
	@$(INSTALL) -r requirements.lock
	@$(PIP) install --no-compile --no-deps --no-build-isolation --editable .
	@touch $@

$(FOR_TESTS): $(STAMP) requirements-test.lock
	@echo "adding what the tests need to ./$(VENV)"
	@$(INSTALL) -r requirements.lock -r requirements-test.lock
	@touch $@

$(FOR_CHECKS): $(FOR_TESTS) requirements-check.lock
	@echo "adding what the checks need to ./$(VENV)"
	@$(INSTALL) -r requirements.lock -r requirements-test.lock -r requirements-check.lock
	@touch $@

demo: export PYTHONDONTWRITEBYTECODE =
demo: $(STAMP)
	@$(BIN)/tacit demo

check: check-format check-lint check-types check-imports

check-format: $(FOR_CHECKS)
	$(BIN)/ruff format --check .

check-lint: $(FOR_CHECKS)
	$(BIN)/ruff check .

check-types: $(FOR_CHECKS)
	$(BIN)/mypy

check-imports: $(FOR_CHECKS)
	$(BIN)/lint-imports

# Two workers more than processors, since tests also wait for servers and disks, but at most four. A module's tests stay
# together, so that its fixtures are made once. The modules that last longest come first (tests/kit/durations.py), so
# that no worker is left with one of them when the others are done. A worker whose process dies ends the run:
# pytest-xdist would start another one and then wait for ever for tests that no worker has. Tests start hundreds of
# processes, so bytecode is kept, whatever the environment says.
WORKERS = $(shell $(BIN)/python -c 'import os; print(min(4, (os.cpu_count() or 1) + 2))')
PYTEST = $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
test test-all test-rotating test-flaky durations: export PYTHONDONTWRITEBYTECODE =

# Tests have their own temporary folder, which is removed afterwards. PostgreSQL, which runs as another user, must be
# able to pass through it. In memory, where there is enough, files are made several times faster than on a disk.
IN_FOLDER = folder=$$(mktemp -d "$${TMPDIR:-$(1)}/tacit-XXXXXX") && chmod 711 "$$folder" && \
    trap 'rm -rf "$$folder"' EXIT && export TMPDIR="$$folder" &&
ON_DISK = $(call IN_FOLDER,/tmp)
IN_MEMORY = $(call IN_FOLDER,$(shell test -w /dev/shm \
    && awk '/^MemAvailable/ {exit $$2 < 8000000}' /proc/meminfo \
    && df -Pk /dev/shm | awk 'NR == 2 {exit $$4 < 8000000}' \
    && awk '$$2 == "/dev/shm" && $$4 ~ /noexec/ {exit 1}' /proc/mounts && echo /dev/shm || echo /tmp))

test: $(FOR_TESTS)
	@$(IN_MEMORY) $(PYTEST) -m "not slow"

durations: $(FOR_TESTS)
	@$(IN_MEMORY) $(PYTEST) -m "$(or $(MARKED),not slow)" --record-durations

# Some tests last many minutes where they share the cores with others.
test-all: $(FOR_TESTS)
	@$(ON_DISK) $(PYTEST) -m "" --override-ini faulthandler_timeout=3600

# Two processes, as by the recorded durations a day has twenty minutes of tests. A test that hangs ends the run.
test-rotating: $(FOR_TESTS)
	@$(ON_DISK) $(PYTEST) --numprocesses 2 -m slow --rotating --override-ini faulthandler_timeout=800

# Each run has different seeds; afterwards the property tests look for new examples once.
RUNS ?= 100
test-flaky: $(FOR_TESTS)
	@$(IN_MEMORY) $(PYTEST) -m "not slow" --runs $(RUNS)
	@$(IN_MEMORY) $(PYTEST) -m "hypothesis and not slow" --hypothesis-profile searching

fmt: $(FOR_CHECKS)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

documents: $(STAMP)
	$(BIN)/tacit schemas --out docs/schemas
	$(BIN)/tacit vectors --out docs/vectors
	$(BIN)/python -m infra.lab.bench.described benchmarks/rows.md
	$(BIN)/python -m infra.tools.documents.loaded_lines docs/architecture.md

# hatchling and editables are locked too, because the package itself is installed without build isolation. A lock uses
# the versions of the locks before it, and leaves those packages out. That of production alone is whole: a server is
# installed from it and a wheel.
LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
    --no-header
ABOVE = $(foreach file,$(1),--constraint $(file) $$(sed -n 's/^\([^ =]*\)==.*/--no-emit-package \1/p' $(file)))
lock:
	echo pip | $(LOCK) --output-file requirements-pip.lock -
	printf 'hatchling\neditables\n' | $(LOCK) --extra demo --output-file requirements.lock pyproject.toml -
	$(LOCK) $(call ABOVE,requirements.lock) --extra accounting --extra backup --extra bench --extra containers --extra figures --extra fleet \
	    --extra hsm --extra learn --extra operator --extra pages --extra postgres --extra test \
	    --output-file requirements-test.lock pyproject.toml
	$(LOCK) $(call ABOVE,requirements.lock requirements-test.lock) --extra check \
	    --output-file requirements-check.lock pyproject.toml
	$(LOCK) --constraint requirements.lock --constraint requirements-test.lock --extra stack --extra backup --extra hsm \
	    --extra postgres --output-file requirements-production.lock pyproject.toml
