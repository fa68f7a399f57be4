# A newcomer types `make demo` and `make test`; the other targets are for developers.
# Needs build-essential, python3-dev and python3-venv; everything else goes into .venv.

PYTHON ?= python3
PY := .venv/bin/python
# Empty as well when the interpreter that .venv was made from is gone or was upgraded.
USABLE := $(shell $(PY) -c 'import pip; print("yes")' 2> /dev/null)
SOURCES := $(wildcard pyx/moorage/*.pxd pyx/moorage/_core pyx/moorage/_core/* pyx/moorage/_core/*/* csrc csrc/*)

COMPILED = python/moorage/_core/*.so python/moorage/_core/*/*.so tests/core/*.so

.PHONY: demo test lint bench bench-front bench-compare bench-scale bench-schedulers sanitize debug-test leaks machine test-ray test-report test-live dist dist-test build tools clean check FORCE

demo: build
	$(PY) -m moorage simulate -f examples
	$(PY) -m moorage simulate --synthetic nodes=5000,pods=20000 --summary

# The benchmark plugin would warn that it stands back for xdist, and warnings are errors.
test: tools
	$(PY) -m pytest -n auto -q -p no:benchmark

lint: tools
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY) -m cython_lint.cython_lint pyx
	$(PY) -m mypy
	MYPYPATH=python $(PY) -m mypy.stubtest moorage._core --mypy-config-file pyproject.toml \
		--allowlist tests/house/stubtest.txt --ignore-unused-allowlist --ignore-disjoint-bases --concise

# bench/RESULTS.md and the table of the front page; SUITES=bench/decide/test_scan.py measures a part and only prints it.
bench: tools
	$(PY) -m pytest $(or $(SUITES),bench) -q -p no:randomly -p no:xdist \
		--benchmark-only --benchmark-quiet --benchmark-json=build/bench.json
	$(PY) -m bench.table build/bench.json $(if $(SUITES),,--write)

# The table of the front page alone, in README.md and bench/RESULTS.md.
bench-front: tools
	$(PY) -m pytest bench/test_front_page.py -q -p no:randomly -p no:xdist \
		--benchmark-only --benchmark-quiet --benchmark-json=build/bench.json
	$(PY) -m bench.table build/bench.json --front

# Ratios to another revision: BASE=HEAD~3, and SUITES for others than the quick ones.
bench-compare: tools
	$(PY) -m bench.compare $(or $(BASE),$(error BASE=<revision> is missing)) $(SUITES)

# Cost per pod from 1,000 to 130,000 nodes; PICTURE=build/scale.svg draws it, which needs matplotlib.
bench-scale: tools
	$(PY) -m bench.scale $(if $(PICTURE),--picture $(PICTURE))

# Pods per second and conflicts of 1 to 8 schedulers, by partition.
bench-schedulers: tools
	$(PY) -m bench.schedulers

# Sanitizers must be there before Python is; a library built with them cannot be imported otherwise.
SANITIZED := build/sanitize
# Both runtimes export __sanitizer_set_report_path, so libubsan's log_path sets the path of libasan alone: ASan writes its
# files, UBSan writes to stderr. --capture=sys leaves stderr open, or a stop in a worker loses what UBSan has said.
sanitize: tools
	MOORAGE_SANITIZE=1 $(PY) setup.py --quiet build --build-lib $(SANITIZED)/lib --build-temp $(SANITIZED)/temp
	rm -f $(SANITIZED)/report.*
	export LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
		PYTHONMALLOC=malloc PYTHONPATH=$(SANITIZED)/lib \
		LD_LIBRARY_PATH=$(CURDIR)/$(SANITIZED)/lib/moorage/_core \
		ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:log_path=$(CURDIR)/$(SANITIZED)/report \
		UBSAN_OPTIONS=print_stacktrace=1; \
	$(PY) -c 'import moorage; assert "$(SANITIZED)" in moorage.__file__, moorage.__file__' && \
	$(PY) -m pytest -n auto -q -p no:benchmark --capture=sys || { cat $(SANITIZED)/report.* 2> /dev/null; exit 1; }

# A build with assertions of capacity, bounds and logging, and the tests that break each of them.
DEBUG := build/debug
debug-test: tools
	MOORAGE_DEBUG=1 $(PY) setup.py --quiet build --build-lib $(DEBUG)/lib --build-temp $(DEBUG)/temp
	export PYTHONPATH=$(DEBUG)/lib LD_LIBRARY_PATH=$(CURDIR)/$(DEBUG)/lib/moorage/_core; \
	$(PY) -c 'import moorage; assert "$(DEBUG)" in moorage.__file__, moorage.__file__' && \
	$(PY) -m pytest -n auto -q -p no:benchmark -m "not slow" tests/core tests/cache tests/scheduler tests/debug

# Interrupts at every line, and the machine over a whole scheduler.
machine: tools
	$(PY) -m pytest -n auto -q -p no:benchmark -m slow tests/scheduler

# Each operation 100,000 times in flat memory.
leaks: tools
	$(PY) -m pytest -n auto -q -p no:benchmark -m slow tests/leaks

# Sweeps and several schedulers on a Ray cluster of several nodes on this machine; the extra ray is installed for it.
test-ray: tools
	$(PIP) 'ray>=2.40'
	$(PY) -m pytest -q -p no:benchmark -p no:xdist -m ray tests/sim/sweep tests/multi

# Pages of reports in a real browser, without its window; selenium and axe are installed for it.
test-report: tools
	@command -v chromium > /dev/null && command -v chromedriver > /dev/null || \
		{ echo "test-report needs Chromium: apt-get install chromium chromium-driver" >&2; exit 1; }
	$(PIP) 'selenium>=4.20' 'axe-core-python>=0.1'
	$(PY) -m pytest -q -p no:benchmark -p no:xdist -m report tests/report

# Against a real kube-apiserver, etcd and kube-scheduler on loopback. Go builds them once, in about 15 minutes.
test-live: tools
	servers="$$($(PY) -m tests.live.servers.build)" && \
	MOORAGE_SERVERS="$$servers" $(PY) -X faulthandler -m pytest -q -p no:benchmark -p no:xdist -m live tests/live

dist: tools
	rm -rf dist
	$(PY) -m build --no-isolation > /dev/null

dist-test: dist
	$(PY) -m tests.package dist

# The package, and what runs it; `tools` adds what tests and checks it.
build: .venv/built

tools: .venv/tools

clean:
	rm -rf .venv build dist python/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -f $(COMPILED)
	find . -name __pycache__ -prune -exec rm -rf {} +

# The stamps are written last, so whatever was interrupted is made again.
PIP = $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt
.venv/built: .venv/ready $(SOURCES)
	$(PY) setup.py --quiet build_ext --inplace
	touch $@

.venv/tools: .venv/built .venv/packages tests/core/build_kernels.py
	$(PY) tests/core/build_kernels.py
	touch $@

.venv/packages: .venv/ready
	$(PY) .ci/requirements.py cli report devices metrics lp kube rl test bench lint > .venv/requirements.txt
	$(PIP) build -r .venv/requirements.txt
	touch $@

# A change of interpreter, flags or compiler versions makes compiled files stale as well.
.venv/ready: pyproject.toml setup.py constraints.txt $(if $(USABLE),,FORCE)
	@$(MAKE) --no-print-directory check
	rm -rf .venv build $(COMPILED)
	$(PYTHON) -m venv .venv
	$(PY) .ci/requirements.py cli > .venv/requirements.txt
	$(PIP) -r .venv/requirements.txt
	cd .venv/lib/python3*/site-packages && echo ../../../../python > moorage.pth
	printf '#!/bin/sh\nexec "$$(dirname "$$0")/python" -m moorage "$$@"\n' > .venv/bin/moorage
	chmod +x .venv/bin/moorage
	touch $@

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
