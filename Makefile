# make demo and make test do all their set-up themselves; a fresh machine needs Python 3.11, make and a compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
unexport PYTHONDONTWRITEBYTECODE
export JAX_PLATFORMS ?= cpu
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES ?= -1

.PHONY: help install demo test test-next verify lint format bench bench-quick rivals lock clean

help:
	@echo "make demo      set up everything and infer an epidemic from ten private counts"
	@echo "make test      set up everything and pass the fast suite"
	@echo "make test-next the fast suite on Python 3.13 with the newest versions that are allowed (NEXT_PYTHON=...)"
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

# Most of the fast suite's time goes into compiling programs that run for milliseconds: tests/xla_flags.py
# says which options of XLA make that quick. Each worker has one core.
FAST := -q -m "not slow" -n auto --dist worksteal --durations=10
test test-next: export OPENBLAS_NUM_THREADS ?= 1
test: install
	@export XLA_FLAGS="$${XLA_FLAGS-$$($(BIN)/python tests/xla_flags.py)}" && \
	$(BIN)/python -m pytest $(FAST)

# The newest versions of everything that pyproject.toml allows, where make test has those of the lock.
NEXT := .cache/next
NEXT_PYTHON ?= python3.13
test-next: $(NEXT)/.installed
	@export XLA_FLAGS="$${XLA_FLAGS-$$($(NEXT)/bin/python tests/xla_flags.py)}" && \
	$(NEXT)/bin/python -m pytest $(FAST)

$(NEXT)/.installed: pyproject.toml
	@command -v $(NEXT_PYTHON) >/dev/null || { echo "make test-next needs $(NEXT_PYTHON), which is not installed here:" \
		"install it, or name another one by make test-next NEXT_PYTHON=/path/to/python3.13" >&2; exit 1; }
	@test -x $(NEXT)/bin/python || $(NEXT_PYTHON) -m venv $(NEXT)
	@echo "Installing the newest versions that pyproject.toml allows into $(NEXT) (about two minutes) ..."
	@$(NEXT)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager \
		-e ".[release,distributed,dev]"
	@$(NEXT)/bin/python -m pip list --disable-pip-version-check --format=freeze > $(NEXT)/versions.txt
	@touch $@

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
