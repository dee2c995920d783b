# Every command a person runs. Each works on a fresh clone, whatever ran before.

PYTHON ?= python3
# gpu: install TensorFlow with CUDA instead of tensorflow-cpu.
TENSORFLOW ?= cpu
# Processes for the multi-process tests; `make test-4` sets it to 4.
RANKS ?= 2
JOBS ?= $(shell nproc)

VENV := .venv
BIN := $(VENV)/bin
RESULTS := build/results
# ctest and pytest write their counts here for the summary.
PYTEST = mkdir -p $(RESULTS) && $(BIN)/pytest --junitxml=$(RESULTS)/$(1).xml

NATIVE_SOURCES := $(shell find custom_ops -name '*.cc' -o -name '*.h' -o -name 'CMakeLists.txt')
PACKAGING := setup.cfg setup.py pyproject.toml
PYTHON_DIRS := tfring callbacks examples tests benchmarks setup.py
CXX_FILES = $(shell find custom_ops tests/cc -name '*.cc' -o -name '*.h')

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help:  ## This list
	@grep -hE '^[a-z0-9%-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

# ---- Installation ---------------------------------------------------------------------

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.build-tools: $(BIN)/python
	$(BIN)/pip install -q cmake ninja 'setuptools>=77'
	@touch $@

$(VENV)/.installed: $(BIN)/python $(PACKAGING)
	$(BIN)/pip install -q -e '.[$(TENSORFLOW),examples]'
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/pip install -q -e '.[$(TENSORFLOW),examples,test,dev]'
	@touch $@

# Brings tfring/lib up to date after a change of the C++ sources.
$(VENV)/.native: $(VENV)/.installed $(VENV)/.build-tools $(NATIVE_SOURCES)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python setup.py -q build_ext --inplace
	@touch $@

.PHONY: install
install: $(VENV)/.installed  ## Make .venv and install tfring with TensorFlow into it
	@echo "Installed. Try: make demo, or . $(BIN)/activate && tfringrun --help"

# ---- Trying it ------------------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.native  ## Train an image classifier on two processes
	TF_CPP_MIN_LOG_LEVEL=$${TF_CPP_MIN_LOG_LEVEL:-2} \
	    $(BIN)/tfringrun -np 2 $(BIN)/python examples/train_image_classifier.py --data digits
	@echo "To see the curves: $(BIN)/tensorboard --logdir logs"

# ---- Benchmarks -----------------------------------------------------------------------

# The peers have environments of their own: they must not get into tfring's.
BENCH := build/bench-venv
HOROVOD := build/horovod-venv
# Horovod 0.28.1 builds against TensorFlow 2.15, which exists for Python 3.9 to 3.11.
HOROVOD_PYTHON ?= $(PYTHON)
# More arguments, such as BENCH_ARGUMENTS='--sections raw --np 2'.
BENCH_ARGUMENTS ?=

$(BENCH)/.installed: $(VENV)/.native $(PACKAGING)
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip install -q -e '.[$(TENSORFLOW),bench]'
	@touch $@

$(HOROVOD)/.installed: benchmarks/horovod-requirements.txt
	@$(HOROVOD_PYTHON) -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 11))' \
	    || { echo "bench-horovod: HOROVOD_PYTHON must be Python 3.9, 3.10 or 3.11" >&2; exit 1; }
	$(HOROVOD_PYTHON) -m venv $(HOROVOD)
	$(HOROVOD)/bin/pip install -q -r benchmarks/horovod-requirements.txt
	PATH="$(abspath $(HOROVOD))/bin:$$PATH" MAKEFLAGS=-j$(JOBS) \
	HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 \
	HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 \
	    $(HOROVOD)/bin/pip install -v --no-build-isolation 'horovod==0.28.1' \
	    > build/horovod.log 2>&1 || { tail -40 build/horovod.log; exit 1; }
	@touch $@

.PHONY: bench
bench: $(VENV)/.native $(BENCH)/.installed  ## Measure tfring against its peers: a few minutes
	$(BENCH)/bin/python -m benchmarks $(BENCH_ARGUMENTS)

.PHONY: bench-full
bench-full: $(VENV)/.native $(BENCH)/.installed  ## The same with more repetitions
	$(BENCH)/bin/python -m benchmarks --full $(BENCH_ARGUMENTS)

.PHONY: bench-horovod
bench-horovod: $(VENV)/.native $(BENCH)/.installed $(HOROVOD)/.installed  ## The same as bench with Horovod, which is built first
	$(BENCH)/bin/python -m benchmarks --horovod $(HOROVOD)/bin/python $(BENCH_ARGUMENTS)

.PHONY: bench-startup
bench-startup: $(VENV)/.native  ## Measure how long 2 to 64 processes take to join a job
	$(BIN)/python -m benchmarks.startup $(BENCH_ARGUMENTS)

.PHONY: bench-network
bench-network: $(VENV)/.native $(BENCH)/.installed  ## Measure allreduce between hosts, which are network namespaces (needs root)
	$(BENCH)/bin/python -m benchmarks.network $(BENCH_ARGUMENTS)

.PHONY: bench-recovery
bench-recovery: $(VENV)/.native  ## Measure how long training stands still when a worker is killed
	$(BIN)/python -m benchmarks.recovery $(BENCH_ARGUMENTS)

.PHONY: bench-cost
bench-cost: $(VENV)/.native $(BENCH)/.installed build/cc/compile_commands.json  ## Fit the cost model and compare it with measurements (hosts need root)
	PATH="$(abspath $(BIN)):$$PATH" cmake --build build/cc --target tfring_cost --parallel $(JOBS)
	$(BENCH)/bin/python -m benchmarks.cost_model $(BENCH_ARGUMENTS)

# ---- Tests ----------------------------------------------------------------------------

.PHONY: test
test:  ## Lint, C++ tests, Python tests, multi-process and network tests, in this order
	rm -rf $(RESULTS)
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory test-cc
	$(MAKE) --no-print-directory test-python
	$(MAKE) --no-print-directory test-parallel
	$(MAKE) --no-print-directory test-elastic
	$(MAKE) --no-print-directory test-network
	@$(BIN)/python tests/harness/summary.py $(RESULTS)

.PHONY: test-python
test-python: $(VENV)/.dev $(VENV)/.native  ## Tests of single modules, in one process
	$(call PYTEST,python) tests/python

.PHONY: test-elastic
test-elastic: $(VENV)/.dev $(VENV)/.native  ## Tests that kill workers of elastic jobs
	$(call PYTEST,elastic) tests/elastic

SOAK_MINUTES ?= 10
.PHONY: soak
soak: $(VENV)/.dev $(VENV)/.native  ## Kill and add workers at random for SOAK_MINUTES
	$(BIN)/python tests/elastic/soak.py $(SOAK_MINUTES)

.PHONY: test-parallel
test-parallel: $(VENV)/.dev $(VENV)/.native  ## Tests on several processes (RANKS=2)
	$(call PYTEST,parallel-$(RANKS)) tests/parallel --ranks $(RANKS)

# They need a third of it.
NETWORK_TESTS_LIMIT_S := 300

.PHONY: test-network
test-network: $(VENV)/.dev $(VENV)/.native  ## Tests on several hosts, which are network namespaces (needs root)
	mkdir -p $(RESULTS)
	timeout -k 10 $(NETWORK_TESTS_LIMIT_S) $(BIN)/pytest --junitxml=$(RESULTS)/network.xml tests/network

# The pattern catches the numbers only: the named targets are explicit rules.
.PHONY: FORCE
test-%: FORCE  ## Multi-process tests on % processes: make test-4
	@case '$*' in (*[!0-9]*|'') echo "no target test-$*; see make help" >&2; exit 2;; esac
	$(MAKE) --no-print-directory test-parallel RANKS=$*

.PHONY: test-tf-versions
test-tf-versions: $(VENV)/.dev $(VENV)/.native  ## Op tests under TensorFlow 2.16, 2.18, 2.20 and 2.21
	$(BIN)/python tests/harness/tf_versions.py

# ---- C++ tests, plain and under the sanitizers ----------------------------------------

# $(1): build directory, $(2): value of TFR_SANITIZE, $(3): name of the results
define cc_tests
	PATH="$(abspath $(BIN)):$$PATH" && \
	cmake -S custom_ops -B build/$(1) -G Ninja -DCMAKE_BUILD_TYPE=$(if $(2),RelWithDebInfo,Release) \
	    -DTFR_BUILD_TESTS=ON -DTFR_SANITIZE=$(2) > build/$(1)-configure.log \
	    || { cat build/$(1)-configure.log; exit 1; } && \
	cmake --build build/$(1) --parallel $(JOBS) && \
	mkdir -p $(RESULTS) && \
	ctest --test-dir build/$(1) --output-on-failure --timeout 300 \
	    --output-junit $(abspath $(RESULTS))/$(1).xml
endef

.PHONY: test-cc
test-cc: $(VENV)/.build-tools build/.exists  ## C++ tests
	$(call cc_tests,cc,)

.PHONY: asan
asan: $(VENV)/.build-tools build/.exists  ## C++ tests under AddressSanitizer
	$(call cc_tests,asan,address)

.PHONY: tsan
tsan: $(VENV)/.build-tools build/.exists  ## C++ tests under ThreadSanitizer
	$(call cc_tests,tsan,thread)

.PHONY: ubsan
ubsan: $(VENV)/.build-tools build/.exists  ## C++ tests under UndefinedBehaviorSanitizer
	$(call cc_tests,ubsan,undefined)

build/.exists:
	mkdir -p build
	@touch $@

# ---- Style ----------------------------------------------------------------------------

# callbacks/ is imported as tfring.callbacks; mypy wants to see it there.
TYPED := build/typed/tfring

.PHONY: lint
lint: $(VENV)/.dev $(VENV)/.native build/cc/compile_commands.json  ## Style, types, layering, generated docs
	$(BIN)/ruff check $(PYTHON_DIRS)
	$(BIN)/ruff format --check $(PYTHON_DIRS)
	rm -rf $(TYPED) && mkdir -p $(TYPED)
	ln -s $(abspath tfring)/* $(abspath callbacks) $(TYPED)/
	cd build/typed && $(abspath $(BIN))/mypy --config-file ../../setup.cfg -p tfring
	$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)
	$(BIN)/python tests/lint/clang_tidy.py --build build/cc --jobs $(JOBS)
	$(call PYTEST,lint) tests/lint

build/cc/compile_commands.json: $(VENV)/.build-tools build/.exists custom_ops/CMakeLists.txt
	PATH="$(abspath $(BIN)):$$PATH" cmake -S custom_ops -B build/cc -G Ninja \
	    -DCMAKE_BUILD_TYPE=Release -DTFR_BUILD_TESTS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON

.PHONY: format
format: $(VENV)/.dev  ## Rewrite the sources in the project's format
	$(BIN)/ruff check --fix-only $(PYTHON_DIRS)
	$(BIN)/ruff format $(PYTHON_DIRS)
	$(BIN)/clang-format -i $(CXX_FILES)

.PHONY: docs
docs: $(VENV)/.installed  ## Regenerate docs/options.md
	$(BIN)/python -m tfring.config > docs/options.md

.PHONY: clean
clean:  ## Remove .venv and everything built
	rm -rf $(VENV) build dist tfring/lib *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
