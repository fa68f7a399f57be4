# A newcomer types `make demo` and `make test`; `make help` lists the others. Jobs that take longer, their times and
# what they need are in tests/jobs/: `make jobs` lists them, and `make NAME` runs one.
# Needs build-essential, python3-dev and python3-venv; everything else goes into .venv.

MAKEFLAGS += --no-builtin-rules
PYTHON ?= python3
PY := .venv/bin/python
# Empty as well when the interpreter that .venv was made from is gone or was upgraded.
USABLE := $(shell $(PY) -c 'import pip; print("yes")' 2> /dev/null)

# Byte code is kept, also of the processes that tests start: without it, each of them compiles the package again.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache

COMPILED = python/moorage/_core/*.so python/moorage/_core/*/*.so tests/core/*.so

.PHONY: demo build test lint schemas reference docs bench clean help jobs tools check FORCE

demo: build ## schedules a small cluster and 20,000 pods
	$(PY) -m moorage simulate -f examples
	$(PY) -m moorage simulate --synthetic nodes=5000,pods=20000 --summary

build: .venv/ready ## makes .venv, the compiled core and .venv/bin/moorage, as far as they are not up to date
	$(PY) -m building.environment build cli
	$(PY) setup.py --quiet build_ext --inplace

# The benchmark plugin would warn that it stands back for xdist, and warnings are errors.
test: tools ## the tests
	$(PY) -m pytest -n auto --dist worksteal -q -p no:benchmark

lint: tools ## style, types and arrows between rooms
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	.venv/bin/lint-imports --no-logo --no-cache tests/house/imports.toml
	PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY) -m cython_lint.cython_lint pyx
	$(PY) -m mypy
	MYPYPATH=python $(PY) -m mypy.stubtest moorage._core --mypy-config-file pyproject.toml \
		--allowlist tests/house/stubtest.txt --ignore-unused-allowlist --ignore-disjoint-bases --concise

schemas: tools ## the JSON schemas of -o json, from the Structs of the answers
	$(PY) docs/make_schemas.py

reference: tools schemas ## docs/reference from docstrings, --help and schemas
	$(PY) docs/make_reference.py

# A warning is an error.
docs: tools ## the guide and the reference, as HTML in build/docs
	$(PY) -m sphinx -W --keep-going -q -b html docs build/docs

# SUITES=bench/decide/test_scan.py measures a part and only prints it. RUNS=3 takes each line from the best of three
# runs, where others use the machine.
bench: tools ## measures: bench/RESULTS.md and the table of docs/guide/performance.md
	rm -f build/bench-*.json
	for run in $$(seq $(or $(RUNS),1)); do \
		$(PY) -m pytest $(or $(SUITES),bench) -q -p no:randomly -p no:xdist \
			--benchmark-only --benchmark-quiet --benchmark-json=build/bench-$$run.json || exit; done
	$(PY) -m bench.table build/bench-*.json $(if $(SUITES),,--write)

clean: ## removes everything that was made
	rm -rf .venv build dist python/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -f $(COMPILED)
	find . -name __pycache__ -prune -exec rm -rf {} +

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile | expand -t 14
	@echo; echo '`make jobs` lists longer jobs, and what each needs; `make nightly` runs all that this machine can.'

jobs:
	@$(PYTHON) -m tests.jobs

# Any other name is that of a job. Its variables are in the environment, as make puts them there.
%: FORCE
	@$(PYTHON) -m tests.jobs $@

# What tests, lint and jobs need, besides the build.
tools: build
	$(PY) -m building.environment tools cli report lp kube rl mcp test bench lint docs
	$(PY) -m tests.core.build_kernels

# Written last, so an interrupted one is made again.
.venv/ready: $(if $(USABLE),,FORCE)
	@$(MAKE) --no-print-directory check
	rm -rf .venv $(COMPILED)
	$(PYTHON) -m venv .venv
	cd .venv/lib/python3*/site-packages && echo ../../../../python > moorage.pth
	printf '#!/bin/sh\nexec "$$(dirname "$$0")/python" -m moorage "$$@"\n' > .venv/bin/moorage
	chmod +x .venv/bin/moorage
	touch $@

Makefile: ;

# Names the first thing that is missing, in one line.
check:
	@need() { echo "moorage needs $$1: apt-get install $$2" >&2; exit 1; }; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null \
		|| need 'Python 3.11 or later ($(PYTHON) is not; make PYTHON=... names another)' python3; \
	$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || need 'venv with ensurepip' python3-venv; \
	$(PYTHON) -c 'import sysconfig as s; open(s.get_path("include") + "/Python.h")' 2> /dev/null \
		|| need 'the header Python.h' python3-dev; \
	printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | $(CC) -x c -o /dev/null - 2> /dev/null \
		|| need 'a C compiler' build-essential
