# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-gpu coverage faults docs docs-serve dist lock audit lint types unit browser format clean

help:
	@echo "make demo      install into $(VENV), train on the corpus that comes along, translate, show"
	@echo "make test      install into $(VENV), lint, type-check, test; installs Chromium if root on Debian"
	@echo "make test-gpu  test what needs a GPU, with what is installed"
	@echo "make coverage  the tests once more, with their branch coverage"
	@echo "make faults    the long tests; inject faults by the hundred and count; KIND=kills for one kind, COUNT=50 for fewer"
	@echo "make docs      build the site into site/; make docs-serve shows it while you write"
	@echo "make dist      build and check the wheel and the source distribution, in dist/"
	@echo "make format    format the code"
	@echo "make lock      write requirements.lock, from which CI installs; make audit asks for its weaknesses"
	@echo "make clean     remove what these commands made in this folder"

# Installed anew when what is to be installed has changed.
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
	@echo "== installing what the tests need"
	@$(BIN)/pip install -qq --constraint constraints.txt --editable ".[dev]"
endif
	@touch $@

$(VENV)/fuzz: $(VENV)/dev
	@echo "== installing what the fuzzer needs"
	@$(BIN)/pip install -qq --constraint constraints.txt --editable ".[dev,fuzz]"
	@touch $@

# What CI installs: every file by its hash. All but torch, whose build depends on the machine.
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
	@echo "== training on the corpus that comes along"
	@$(BIN)/transduce demo

test: lint types unit
	@echo "== all is well"

lint: $(VENV)/dev
	@echo "== ruff: style and formatting"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/dev
	@echo "== mypy --strict: types"
	@$(BIN)/mypy

# A process a core, each with one thread. No more than 8: every one imports torch and trains its own
# small models, and the longest tests set the end.
unit: $(VENV)/dev browser
	@echo "== pytest: tests$(if $(COVERAGE), with branch coverage)"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(COVERAGE) \
		--numprocesses logical --maxprocesses 8 --dist worksteal

# The tests with their branch coverage, which takes a third longer.
coverage: COVERAGE := --cov --cov-report=term
coverage: unit

# A real browser tests the pages. Without one those tests are skipped, and the rest stands.
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable
browser:
	@for name in $(BROWSERS); do command -v $$name > /dev/null && exit; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		echo "== installing Chromium for the tests of pages"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -qq --no-install-recommends chromium fonts-liberation > /dev/null && exit; \
	fi; \
	echo "== no browser: the tests of pages are skipped; to have them, install chromium and run again"

# With the torch that fits the machine's driver: $(VENV) has it, or the machine itself.
test-gpu:
	@PYTHONPATH=src $(or $(wildcard $(BIN)/python),$(PYTHON)) -m pytest -m gpu tests/gpu

# The long form of tests/faults: an hour or more, with its counts.
faults: $(VENV)/fuzz
	@$(if $(KIND),,OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m long)
	@PYTHONPATH=tests:tests/support:tools OMP_NUM_THREADS=1 $(BIN)/python -m faults $(KIND) $(if $(COUNT),--count $(COUNT))

# Built without isolation: what builds it is installed, and no other version is fetched.
dist: $(VENV)/dev
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist .
	@$(BIN)/twine check --strict dist/*
	@$(BIN)/check-wheel-contents dist/*.whl

# The site asks nothing of other hosts, neither here nor in a reader's browser.
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
