# Everything that is done with this checkout. `make` alone lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The first interpreter that starts and is new enough; name another with PYTHON=…
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PY := $(BIN)/python
# Empty: everything.
TESTS ?=

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | \
		while IFS=$$'\t' read -r name text; do printf '  make %-8s %s\n' "$$name" "$$text"; done

.PHONY: demo
demo: install ## Run one real training from data to a package that verifies itself
	@exec $(PY) docker/local/demo.py run

.PHONY: up
up: install ## Start a private Airflow and leave it running; prints address, users, passwords
	@exec $(PY) docker/local/demo.py up

.PHONY: down
down: ## Stop what `make up` started
	@if [ -x $(PY) ]; then exec $(PY) docker/local/demo.py down; else echo "Nothing is installed, nothing runs."; fi

.PHONY: test
test: install peers system check ## Run every check and every test (TESTS=… chooses)
	@exec $(PY) $(if $(TESTS),-m pytest -p no:cacheprovider $(TESTS),docker/local/every_test.py)

.PHONY: check
check: install ## Lint, format, types and layers
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(PY) -m mypy --no-error-summary plugin operators dags docker/local docker/trainer
	@$(BIN)/lint-imports --no-cache >.venv/lint-imports.log || { cat .venv/lint-imports.log; exit 1; }
	@echo "Checks passed: lint, format, types, layers."

.PHONY: bench
bench: install peers ## Measure the numbers that the project promises; prints tables
	@exec $(PY) -m pytest -p no:cacheprovider -s -m bench tests/bench

.PHONY: fuzz
fuzz: install ## Fuzz every parser of foreign files for five minutes each (over an hour: nightly); `make test` takes 20 s
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-300} FUZZ_SEED=$${FUZZ_SEED:-$$RANDOM} exec $(PY) -m pytest -p no:cacheprovider tests/fuzz

.PHONY: faults
faults: install system ## Kill and fail at every single file syscall (an hour: nightly); `make test` takes some of each
	@EVERY_FAULT=1 exec $(PY) -m pytest -p no:cacheprovider --timeout=3600 tests/integration/ledger/test_faults.py \
		tests/integration/gates/test_decision_faults.py tests/integration/data/test_faults.py \
		tests/integration/package/test_write_faults.py

.PHONY: fmt
fmt: install ## Format the code and mend what the linter can
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

.PHONY: docs
docs: install ## Write the parts of the documentation that the program itself tells
	@$(PY) docker/local/reference.py
	@$(PY) -m pretrain_archive.ledger.schemas docs/schemas

.PHONY: lock
lock: install ## Write requirements.lock anew (UPGRADE=1 lets every version move)
	@exec $(PY) docker/local/lock.py $(if $(UPGRADE),--upgrade)

.PHONY: install
install: ## Create .venv from requirements.lock; does nothing when it is up to date
	@if [ -z "$(PYTHON)" ]; then echo "Python 3.11, 3.12 or 3.13 is needed and none was found." \
		"Install one, or name it: make PYTHON=/path/to/python3.12 …" >&2; exit 2; fi
	@$(PYTHON) docker/local/install.py

.PHONY: peers
peers: ## Install the tools that benchmarks compare with, apart from ours
	@$(PYTHON) docker/local/peers.py

.PHONY: system
system: ## Install the system programs that tests need, where that is allowed
	@$(PYTHON) docker/local/system.py
