# On a fresh machine, `make demo` and `make test` install everything they need.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-gpu coverage faults docs docs-serve dist lock audit lint types unit browser format clean

help:
	@echo "make demo      install into $(VENV), train on the built-in corpus, translate"
	@echo "make test      install into $(VENV), lint, type-check, test; as root on Debian, also install Chromium"
	@echo "make test-gpu  run the tests that need a GPU, with the installed torch"
	@echo "make coverage  run the tests with branch coverage"
	@echo "make faults    run the long tests and inject hundreds of faults; KIND=kills for one kind, COUNT=50 for fewer"
	@echo "make docs      build the documentation into site/; make docs-serve serves it and reloads on changes"
	@echo "make dist      build and check the wheel and the source distribution, in dist/"
	@echo "make format    format the code"
	@echo "make lock      write requirements.lock, from which CI installs; make audit checks it for known vulnerabilities"
	@echo "make clean     delete everything that these commands created"

# Reinstalled when one of these files changes.
$(VENV)/user: pyproject.toml constraints.txt $(if $(LOCKED),requirements.lock)
	@echo "== installing transduce into $(VENV) (torch is large: this takes a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifdef LOCKED
	@$(BIN)/pip install -qq --no-deps --constraint constraints.txt torch
	@$(BIN)/pip install -qq --no-deps --require-hashes --requirement requirements.lock
	@$(BIN)/pip install -qq --no-deps --no-build-isolation --editable .
	@$(BIN)/pip check > /dev/null
	@touch $(VENV)/dev
else
	@$(BIN)/pip install -qq --constraint constraints.txt --editable .
endif
	@touch $@

$(VENV)/dev: $(VENV)/user
ifndef LOCKED
	@echo "== installing the tools for tests"
	@$(BIN)/pip install -qq --constraint constraints.txt --editable ".[dev]"
endif
	@touch $@

$(VENV)/fuzz: $(VENV)/dev
	@echo "== installing the fuzzer"
	@$(BIN)/pip install -qq --constraint constraints.txt --editable ".[dev,fuzz]"
	@touch $@

# CI installs every file by its hash, except torch, whose build depends on the machine.
lock:
	@rm -rf $(VENV)-lock
	@$(PYTHON) -m venv $(VENV)-lock
	@$(VENV)-lock/bin/pip install -qq --constraint constraints.txt ".[dev]" hatchling editables uv
	@$(VENV)-lock/bin/pip freeze --all | grep -v '^pip==\|^torch==\|^transduce\|^uv==' | $(VENV)-lock/bin/uv pip compile \
		--quiet --no-deps --no-header --no-annotate --generate-hashes --python-version 3.11.5 \
		--python-platform x86_64-manylinux_2_28 --output-file requirements.lock -
	@rm -rf $(VENV)-lock

audit:
	@$(PYTHON) -m venv $(VENV)-audit
	@$(VENV)-audit/bin/pip install -qq pip-audit
	@$(VENV)-audit/bin/pip-audit --disable-pip --require-hashes --requirement requirements.lock
	@$(VENV)-audit/bin/pip-audit --disable-pip --no-deps --requirement constraints.txt
	@rm -rf $(VENV)-audit

demo: $(VENV)/user
	@echo "== training on the built-in corpus"
	@$(BIN)/transduce demo

test: lint types unit
	@echo "== all checks passed"

lint: $(VENV)/dev
	@echo "== ruff: style and formatting"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/dev
	@echo "== mypy --strict: types"
	@$(BIN)/mypy

# One process per core, each with one thread. At most 8: each imports torch and trains its own small
# models, and the longest tests determine the total time.
unit: $(VENV)/dev browser
	@echo "== pytest: tests$(if $(COVERAGE), with branch coverage)"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(COVERAGE) \
		--numprocesses logical --maxprocesses 8 --dist worksteal

# Branch coverage takes a third longer.
coverage: COVERAGE := --cov --cov-report=term
coverage: unit

# The pages are tested in a real browser. Without one, those tests are skipped.
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable
browser:
	@for name in $(BROWSERS); do command -v $$name > /dev/null && exit; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		echo "== installing Chromium to test the pages"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -qq --no-install-recommends chromium fonts-liberation > /dev/null && exit; \
	fi; \
	echo "== no browser found: skipping the tests of pages; install chromium to run them"

# Uses the torch that fits the machine's driver, from $(VENV) or from the system.
test-gpu:
	@PYTHONPATH=src $(or $(wildcard $(BIN)/python),$(PYTHON)) -m pytest -m gpu tests/gpu

# The long form of tests/faults takes an hour or more.
faults: $(VENV)/fuzz
	@$(if $(KIND),,OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m long)
	@PYTHONPATH=tests:tests/support:tools OMP_NUM_THREADS=1 $(BIN)/python -m faults $(KIND) $(if $(COUNT),--count $(COUNT))

# Built without isolation, with the installed build tools.
dist: $(VENV)/dev
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist .
	@$(BIN)/twine check --strict dist/*
	@$(BIN)/check-wheel-contents dist/*.whl

# Neither the build nor the site requests anything from other hosts.
docs docs-serve: export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/dev
	@$(BIN)/mkdocs build --quiet --strict
	@echo "== open site/index.html (its search needs a server: make docs-serve)"

docs-serve: $(VENV)/dev
	@$(BIN)/mkdocs serve --quiet

format: $(VENV)/dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(VENV)-lock $(VENV)-audit .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage* runs dist site
