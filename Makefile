# A newcomer types `make demo` and `make test`; the other targets are for developers.
# Needs build-essential, python3-dev and python3-venv; everything else goes into .venv.

PYTHON ?= python3
PY := .venv/bin/python
# Empty as well when the interpreter that .venv was made from is gone or was upgraded.
USABLE := $(shell $(PY) -c 'import pip; print("yes")' 2> /dev/null)
SOURCES := $(wildcard pyx/moorage/*.pxd pyx/moorage/_core pyx/moorage/_core/* pyx/moorage/_core/*/* csrc csrc/*)

COMPILED = python/moorage/_core/*.so python/moorage/_core/*/*.so tests/core/*.so

.PHONY: demo test lint docs bench bench-front bench-compare bench-scale bench-schedulers sanitize debug-test leaks machine test-ray test-report test-live parity dist dist-test extras wheels wheels-test variants build tools clean check bench-live threads soak campaign campaign-short mutants nightly coverage instructions FORCE

demo: build
	$(PY) -m moorage simulate -f examples
	$(PY) -m moorage simulate --synthetic nodes=5000,pods=20000 --summary

# The benchmark plugin would warn that it stands back for xdist, and warnings are errors.
test: tools
	$(PY) -m pytest -n auto -q -p no:benchmark

lint: tools
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	.venv/bin/lint-imports --no-logo --no-cache tests/house/imports.toml
	PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY) -m cython_lint.cython_lint pyx
	$(PY) -m mypy
	MYPYPATH=python $(PY) -m mypy.stubtest moorage._core --mypy-config-file pyproject.toml \
		--allowlist tests/house/stubtest.txt --ignore-unused-allowlist --ignore-disjoint-bases --concise

# The guide and the reference, as HTML in build/docs; a warning is an error.
docs: tools
	$(PY) -m sphinx -W --keep-going -q -b html docs build/docs

# bench/RESULTS.md and the table of the front page; SUITES=bench/decide/test_scan.py measures a part and only prints it.
# RUNS=3 takes each line from the best of three runs, where others use the machine.
bench: tools
	rm -f build/bench-*.json
	for run in $$(seq $(or $(RUNS),1)); do \
		$(PY) -m pytest $(or $(SUITES),bench) -q -p no:randomly -p no:xdist \
			--benchmark-only --benchmark-quiet --benchmark-json=build/bench-$$run.json || exit; done
	$(PY) -m bench.table build/bench-*.json $(if $(SUITES),,--write)

# The table of the front page alone, in README.md and bench/RESULTS.md.
bench-front: tools
	$(PY) -m pytest bench/test_front_page.py -q -p no:randomly -p no:xdist \
		--benchmark-only --benchmark-quiet --benchmark-json=build/bench.json
	$(PY) -m bench.table build/bench.json --front

# Ratios to another revision: BASE=HEAD~3, and SUITES for others than the quick ones.
bench-compare: tools
	$(PY) -m bench.compare $(or $(BASE),$(error BASE=<revision> is missing)) $(SUITES)

# The core's instructions on twelve hot paths, beside those of figures.json; OPTIONS=--write renews these. Needs valgrind.
instructions: tools
	$(PY) -m bench.instructions $(OPTIONS)

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
# ONLY=tests/core runs a part.
sanitize: tools
	MOORAGE_SANITIZE=1 $(PY) setup.py --quiet build --build-lib $(SANITIZED)/lib --build-temp $(SANITIZED)/temp
	rm -f $(SANITIZED)/report.*
	export LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
		PYTHONMALLOC=malloc PYTHONPATH=$(SANITIZED)/lib \
		LD_LIBRARY_PATH=$(CURDIR)/$(SANITIZED)/lib/moorage/_core \
		ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:log_path=$(CURDIR)/$(SANITIZED)/report \
		UBSAN_OPTIONS=print_stacktrace=1; \
	$(PY) -c 'import moorage; assert "$(SANITIZED)" in moorage.__file__, moorage.__file__' && \
	$(PY) -m pytest -n auto -q -p no:benchmark --capture=sys $(ONLY) || { cat $(SANITIZED)/report.* 2> /dev/null; exit 1; }

# Races of threads, in a build with ThreadSanitizer. CPython itself is not built with it, but its locks are seen, the
# GIL among them. Processes that tests fork start threads, hence die_after_fork.
THREADS := build/threads
RACES := tests/cache/test_threads.py tests/core/test_parallel.py tests/store/informers/test_threads.py \
	tests/scheduler/placing/test_background_binding.py tests/campaign/test_soak.py
threads: tools
	MOORAGE_SANITIZE=thread $(PY) setup.py --quiet build --build-lib $(THREADS)/lib --build-temp $(THREADS)/temp
	rm -f $(THREADS)/report.*
	export LD_PRELOAD="$$($(CC) -print-file-name=libtsan.so)" PYTHONPATH=$(THREADS)/lib \
		LD_LIBRARY_PATH=$(CURDIR)/$(THREADS)/lib/moorage/_core \
		TSAN_OPTIONS=die_after_fork=0:suppressions=$(CURDIR)/tests/campaign/threads.supp:log_path=$(CURDIR)/$(THREADS)/report; \
	$(PY) -c 'import moorage; assert "$(THREADS)" in moorage.__file__, moorage.__file__' && \
	$(PY) -m pytest -q -p no:benchmark -p no:xdist $(RACES) && \
	$(PY) -m tests.campaign.soak $(THREADS)/soak.json --seconds 60 || { cat $(THREADS)/report.* 2> /dev/null; exit 1; }

# Eight threads over caches, forks, a pool and a store, for ten minutes; SECONDS names another time.
soak: tools
	$(PY) -m tests.campaign.soak build/campaign/soak.json --seconds $(or $(SECONDS),600)

# A build with assertions of capacity, bounds and logging, and the tests that break each of them. The assertions allocate
# memory themselves, so the failure of each allocation is tested without them.
DEBUG := build/debug
debug-test: tools
	MOORAGE_DEBUG=1 $(PY) setup.py --quiet build --build-lib $(DEBUG)/lib --build-temp $(DEBUG)/temp
	export PYTHONPATH=$(DEBUG)/lib LD_LIBRARY_PATH=$(CURDIR)/$(DEBUG)/lib/moorage/_core; \
	$(PY) -c 'import moorage; assert "$(DEBUG)" in moorage.__file__, moorage.__file__' && \
	$(PY) -m pytest -n auto -q -p no:benchmark -m "not slow" tests/core tests/cache tests/scheduler tests/debug \
		--ignore tests/core/state/test_failed_allocations.py

# Interrupts at every line, and the machine over a whole scheduler.
machine: tools
	$(PY) -m pytest -n auto -q -p no:benchmark -m slow tests/scheduler

# Each operation 100,000 times in flat memory.
leaks: tools
	$(PY) -m pytest -n auto -q -p no:benchmark -m slow tests/leaks

# Long runs with a seed (docs/testing.md): hours, or ten minutes. OPTIONS='--jobs fuzz --seed 7 --scale 0.1' runs a part.
campaign: .venv/campaign
	$(PY) -m tests.campaign $(OPTIONS)

campaign-short: .venv/campaign
	$(PY) -m tests.campaign --short $(OPTIONS)

# Changes of the code that the tests have to notice: SAMPLE of them, chosen by SEED. build/campaign/mutants.json has the
# result of each; a report that is there is continued.
mutants: .venv/campaign
	mkdir -p build/campaign
	$(PY) -m tests.campaign.mutants build/campaign/mutants.json --sample $(or $(SAMPLE),500) --seed $(or $(SEED),1)

# Lines and branches of Python, lines of C and Cython that the tests reach, in a build of its own, where gcov counts the
# lines of C when a process ends by itself: xdist kills workers that take longer for it. ONLY=tests/core measures a part.
COVERED := build/coverage
coverage: .venv/campaign
	rm -f $(COVERED)/python* $(COVERED)/lib/moorage/_core/libmoorage_kernels.so
	MOORAGE_COVERAGE=1 $(PY) setup.py --quiet build --build-lib $(COVERED)/lib --build-temp $(COVERED)/temp
	find $(COVERED) -name '*.gcda' -delete
	export PYTHONPATH=$(COVERED)/lib LD_LIBRARY_PATH=$(CURDIR)/$(COVERED)/lib/moorage/_core; \
	$(PY) -c 'import moorage; assert "$(COVERED)" in moorage.__file__, moorage.__file__' && \
	$(PY) -m coverage run -m pytest -p no:xdist -q -p no:benchmark $(ONLY)
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage report --skip-covered --sort=miss
	$(PY) -m tests.campaign.line_counts $(COVERED)/temp

# The kernels for any x86-64, with AVX2 and with AVX-512, each alone under the tests of kernels and the vectors.
variants: tools
	$(PY) -m tests.campaign.variants

# Every job that a push does not run, one after the other.
nightly: tools
	for job in debug-test sanitize threads variants machine leaks coverage campaign test-report dist-test extras test-live parity; do \
		$(MAKE) --no-print-directory $$job || failed="$$failed $$job"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

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
	MOORAGE_SERVERS="$$servers" $(PY) -X faulthandler -m pytest -q -p no:benchmark -p no:xdist \
		-o faulthandler_timeout=1200 -m live tests/live

# Scenarios bred from the vectors, for moorage and for kube-scheduler's own code, which Go builds in a minute or more.
parity: tools
	$(PY) -m tests.conformance.upstream --seed $(or $(SEED),1) --count $(or $(COUNT),1000) $(VECTORS)

# Bindings per second beside kube-scheduler's, on one API server.
bench-live: tools
	servers="$$($(PY) -m tests.live.servers.build)" && MOORAGE_SERVERS="$$servers" $(PY) -m bench.live.throughput

dist: tools
	rm -rf dist
	$(PY) -m build --no-isolation > /dev/null

dist-test: dist
	$(PY) -m tests.package dist

# Each extra alone in an environment of its own, and what is said where it is missing.
extras: dist
	$(PY) -m tests.package.extras dist/*.whl

# A wheel for each interpreter of PYTHONS, built twice and compared; wheels-test runs the whole suite over each as well.
PYTHONS ?= $(PYTHON)
wheels: dist
	$(PY) -m tests.package.wheels dist/*.tar.gz dist/wheels $(PYTHONS)

wheels-test: dist
	$(PY) -m tests.package.wheels --suite dist/*.tar.gz dist/wheels $(PYTHONS)

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

.venv/campaign: .venv/tools
	$(PY) .ci/requirements.py campaign > .venv/requirements.txt
	$(PIP) -r .venv/requirements.txt
	touch $@

.venv/packages: .venv/ready
	$(PY) .ci/requirements.py cli report devices metrics lp kube rl test bench lint docs > .venv/requirements.txt
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
