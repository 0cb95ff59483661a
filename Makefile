# Every target creates .venv and installs what it needs; nothing else has to be done first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
# Two cores: keep numerical libraries from starting threads of their own under the test workers.
export OMP_NUM_THREADS      ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export NUMBA_NUM_THREADS    ?= 1
WORKERS ?= 2
# Tests draw fresh entropy for every change of the code, and the same again until the next (conftest.py).
export NOISEWISE_TEST_SEED ?= $(shell git log -1 --format=%H -- src papers/noisewise_papers 2>/dev/null)

.PHONY: demo test test-all test-grids test-spark test-postgres browser test-browser lint marks bench docs dist clean

$(READY): pyproject.toml papers/pyproject.toml requirements-dev.txt
	$(PYTHON) -c 'import sys; sys.exit("Noisewise needs Python 3.11 or newer; run make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements-dev.txt -e '.[dev]' -e papers
	touch $(READY)

demo: $(READY)
	$(BIN)/noisewise demo --out demo-report

test: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

test-all: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS)

# Every cell of the large grids, of which test-all runs some: hours on two cores.
test-grids: $(READY)
	NOISEWISE_GRIDS=whole $(BIN)/python -m pytest -n $(WORKERS) -m grid

# Real engines, each with what it needs installed on first use; tests of an engine that is not there are skipped.
test-spark: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements-dev.txt -e '.[dev,spark]'
	$(BIN)/python -m pytest tests/holder/test_spark.py

test-postgres: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements-dev.txt -e '.[dev,survey,postgres-server]'
	$(BIN)/python -m pytest -m "not slow" tests/holder/test_postgres.py tests/collector tests/system/test_collector_processes.py

# A real browser: Debian's Chromium and its driver where this user may install them, and selenium to drive it.
browser: $(READY)
	command -v chromedriver >/dev/null || { apt-get update -q && apt-get install -y -q chromium chromium-driver; } || \
	  echo "Chromium could not be installed here: install chromium and chromium-driver; without them its tests are skipped."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements-dev.txt -e '.[dev,survey,browser]'

test-browser: browser
	$(BIN)/python -m pytest -m "not slow" tests/browser

lint: $(READY)
	$(BIN)/ruff check src papers conftest.py tests benchmarks tools
	$(BIN)/ruff format --check src papers conftest.py tests benchmarks tools
	$(BIN)/mypy
	$(BIN)/lint-imports

marks: $(READY)
	$(BIN)/python tools/marks.py --check

bench: $(READY)
	for file in $(filter-out benchmarks/command.py,$(wildcard benchmarks/*.py)); do $(BIN)/python $$file || exit 1; done

docs: $(READY)
	$(BIN)/mkdocs build --strict

# Wheel and sdist, each installed into an empty environment of its own, where the demo must run.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	for file in dist/*; do \
	  rm -rf dist-try && $(PYTHON) -m venv dist-try && \
	  dist-try/bin/python -m pip install --quiet --disable-pip-version-check -c requirements-dev.txt $$file && \
	  (cd dist-try && bin/python -m noisewise --version && bin/python -m noisewise demo --out report) || exit 1; \
	done
	rm -rf dist-try

clean:
	rm -rf $(VENV) demo-report dist dist-try site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
