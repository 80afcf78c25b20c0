# make demo and make test do all their set-up themselves; a fresh machine needs Python 3.11, make and a compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
unexport PYTHONDONTWRITEBYTECODE
export JAX_PLATFORMS ?= cpu
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES ?= -1

.PHONY: help install demo test verify lint format bench bench-quick rivals lock clean

help:
	@echo "make demo      set up everything and infer an epidemic from ten private counts"
	@echo "make test      set up everything and pass the fast suite"
	@echo "make verify    the slow statistical gates"
	@echo "make lint      ruff and mypy"
	@echo "make bench     side by side with sbi, pyABC and PyTorch, written to benchmarks/results/ and docs/ (45 minutes)"
	@echo "make bench-quick  noisewise alone, printed (5 minutes)"
	@echo "make rivals    create .cache/rivals, the environment of make bench"
	@echo "make install   create .venv from requirements.lock"
	@echo "make lock      resolve requirements.lock again from pyproject.toml"

install: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the locked dependencies into $(VENV) (about a minute) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

demo: install
	@rm -rf runs/demo
	@$(BIN)/noisewise infer sir --epsilon 10 --method sppe --seed 2 --out runs/demo

# Most of the fast suite's time goes into compiling programs that run for milliseconds. Each of its
# workers has one core, so that programs are compiled in one piece: 32 pieces take half as long again.
test: export XLA_FLAGS ?= --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false \
	--xla_cpu_parallel_codegen_split_count=1
test: export OPENBLAS_NUM_THREADS ?= 1
test: install
	$(BIN)/python -m pytest -q -m "not slow" -n auto --dist worksteal --durations=10

verify: install
	$(BIN)/python -m pytest -q -m slow --durations=10

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

RIVALS := .cache/rivals
bench: $(RIVALS)/.installed
	$(RIVALS)/bin/python -m benchmarks

bench-quick: install
	$(BIN)/python -m benchmarks --quick

rivals: $(RIVALS)/.installed

$(RIVALS)/.installed: requirements.lock pyproject.toml
	@test -x $(RIVALS)/bin/python || $(PYTHON) -m venv $(RIVALS)
	@$(RIVALS)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(RIVALS)/bin/python -m pip install --quiet --disable-pip-version-check sbi==0.27.0 pyabc==0.13.0 -r requirements.lock
	@$(RIVALS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

lock: install
	$(BIN)/pip-compile --quiet --upgrade --extra=release --extra=distributed --extra=dev --strip-extras --no-header --no-annotate --no-emit-options \
		-o requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache
