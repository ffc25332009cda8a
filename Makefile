# Sluice. `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/sh
.DELETE_ON_ERROR:

PY := .venv/bin/python
export PYTHONDONTWRITEBYTECODE ?=
ONLY ?=
# Tests wait more than they compute, so there are more workers than cores; 0 runs all in one process.
WORKERS ?= 3
FUZZ ?= 10
MINUTES ?= 1
STEPS ?= 2000
# The order of the tests comes from the commit: the same commit has the same order everywhere, the next one another.
ORDER ?= $(shell printf '%d' "0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1)")

##@ Use it
.PHONY: run
run: .venv/ready ## Start a cell, feed it real jobs, show what happens (about a minute)
	@$(PY) -m sluice.cli.main demo

.PHONY: shell
shell: .venv/ready ## A shell with `sluice` on PATH
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $${SHELL:-sh}

##@ Work on it
.PHONY: test
test: .venv/ready ## All tests (unit, property, conformance, integration, e2e), WORKERS=3 at a time
	@$(PY) -m pytest -q -n $(WORKERS) --dist worksteal --randomly-seed=$(ORDER)

.PHONY: unit
unit: .venv/ready ## The instant tests: no server, no processes
	@$(PY) -m pytest -q -n $(WORKERS) --dist worksteal --randomly-seed=$(ORDER) tests/unit

.PHONY: fix
fix: .venv/ready ## Sort imports, format, and mend what ruff can mend
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

.PHONY: fuzz
fuzz: .venv/ready ## Property tests on other examples each time, FUZZ=10 times as many as `make test` draws
	@SLUICE_FUZZ=$(FUZZ) $(PY) -m pytest -q -n $(WORKERS) --dist worksteal tests/property tests/unit

.PHONY: fuzz-readers
fuzz-readers: .venv/ready ## Any bytes to everything that reads what others have written, FUZZ=10 times as many
	@SLUICE_FUZZ=$(FUZZ) $(PY) -m pytest -q -n $(WORKERS) --dist worksteal tests/fuzz

.PHONY: fuzz-guided
fuzz-guided: .venv/ready ## The same, guided by what the bytes reach, for MINUTES=1; wants `pip install atheris`
	@$(PY) -m tests.fuzz.guided -- -max_total_time=$$(( $(MINUTES) * 60 ))

.PHONY: lint
lint: .venv/ready ## Style, types, import contracts
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports

.PHONY: conformance
conformance: .venv/ready ## The conformance cases, one line per suite (SLUICE_CONFORMANCE_DIR)
	@$(PY) -m tests.conformance

.PHONY: fault
fault: .venv/ready ## Kill services and server at random while jobs run; then check every invariant
	@$(PY) -m tests.fault
	@$(PY) -m tests.fault --checks --kills 40

.PHONY: fault-store
fault-store: .venv/ready ## Lose buckets, servers, clocks, connections and the log while jobs flow (five minutes)
	@$(PY) -m tests.fault.store

.PHONY: sim
sim: .venv/ready ## Simulate the whole cell from new seeds, MINUTES=1 on all cores; SEED=n STEPS=n plays one
	@$(PY) -m tests.simulation $(if $(SEED),--seed $(SEED),--minutes $(MINUTES)) --steps $(STEPS)

.PHONY: bench
bench: .venv/ready ## Benchmarks, one JSON line each (ONLY=baseline runs one)
	@$(PY) -m tests.bench $(ONLY)

.PHONY: proto
proto: .venv/ready ## Regenerate proto/ (AsyncAPI, JSON Schema, golden messages)
	@$(PY) -m sluice.contract

.PHONY: docs
docs: .venv/ready ## Write the pages anew that are made from code (docs/cli.md, docs/rights.md, docs/metrics.md), and dashboards
	@$(PY) -m tests.unit.docs.cli_page
	@$(PY) -m tests.unit.docs.rights_page
	@$(PY) -m tests.unit.docs.metrics_page
	@$(PY) -m tests.unit.docs.dashboards

.PHONY: dashboards-pictures
dashboards-pictures: .venv/ready ## Draw every dashboard of a cell under load into dist/dashboards; wants prometheus, chromium (three minutes)
	@$(PY) -m tests.pictures

.PHONY: alerts-table
alerts-table: .venv/ready ## Make every alert fire and go, and write down how long it took; wants prometheus (three minutes)
	@SLUICE_ALERTS_SEEN=1 $(PY) -m pytest -q -s -p no:randomly tests/e2e/test_alerts.py -k runbook

.PHONY: api
api: .venv/ready ## Record the public interface anew (tests/unit/public_api.txt)
	@$(PY) -m tests.unit.public_api

.PHONY: changelog
changelog: .venv/ready ## Move the fragments in changes/ into CHANGELOG.md, as VERSION
	@$(PY) .ci/changelog.py $(VERSION)

.PHONY: test-containers
test-containers: .venv/ready ## Cells in containers, of one server and of three; needs a Docker engine (ten minutes)
	@SLUICE_CONTAINERS=1 $(PY) -m pytest -q -rs tests/containers

.PHONY: release-check
release-check: .venv/ready ## Build wheel, sdist, bill of materials, man pages into dist/, and try all of it (five minutes)
	@$(PY) -m tests.release

.PHONY: cov
cov: .venv/ready ## Branch coverage of the core by the tests that need no server; 95 % at least
	@SLUICE_SEEDS=5 $(PY) -m pytest -q -n $(WORKERS) --dist worksteal --cov --cov-report=term:skip-covered \
		tests/unit tests/property tests/conformance tests/simulation

.PHONY: lock
lock: .venv/ready ## Renew requirements.lock from pyproject.toml
	.venv/bin/uv pip compile -q --universal --python-version 3.12 --extra dev --extra otel --extra s3 --generate-hashes \
		--no-emit-index-url --no-header -o requirements.lock pyproject.toml

.PHONY: clean
clean: ## Remove the environment, caches and local cells
	rm -rf .venv .sluice .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf libs/*.egg-info *.egg-info build

# The environment: made once, and again when the lock file changes.
.venv/ready: requirements.lock pyproject.toml .ci/find-python
	@python=$$(PYTHON="$(PYTHON)" sh .ci/find-python) || exit 1; \
	echo "Setting up .venv with $$python ($$($$python -V)); this happens once."; \
	rm -rf .venv && $$python -m venv .venv && \
	$(PY) -m pip install -q --disable-pip-version-check --no-compile --require-hashes -r requirements.lock && \
	$(PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e . && \
	{ $(PY) -m compileall -q -j 0 .venv/lib || true; } && \
	touch $@

.PHONY: help
help: ## This list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
