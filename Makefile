# ksi: `make demo` and `make test` need Debian, Python 3.11 and make; the rest is installed here.

PYTHON ?= python3
VENV := .venv
SECONDS ?= 60
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

NODE := tests/node/node_modules

.PHONY: node demo test lint types unit conformance faults bench fuzz soak lock clean

demo: $(VENV)/.runtime
	@$(BIN)/ksi demo

test: lint types unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

unit: $(VENV)/.test
	$(BIN)/pytest -q -n auto --dist worksteal

again: lint types
	@echo "once more, what failed:"
	$(BIN)/pytest -q --last-failed

conformance: $(VENV)/.test
	$(BIN)/pytest -q -m conformance

faults: $(VENV)/.test
	$(BIN)/pytest -q -m faults -n auto --dist worksteal

bench: $(VENV)/.bench
	$(BIN)/python -m tests.bench.run
	$(BIN)/python -m tests.bench.extraction
	$(BIN)/python -m tests.bench.loop
	$(BIN)/python -m tests.bench.stages

# What it learns stays in .fuzz; what fails is printed, and is a file there.
fuzz: $(VENV)/.fuzz
	@mkdir -p .fuzz/learnt
	$(BIN)/python -m tests.fuzz.fuzz_extract -max_total_time=$(SECONDS) -max_len=150 -len_control=0 \
		-verbosity=0 -print_final_stats=1 -artifact_prefix=.fuzz/ .fuzz/learnt

# All that is random, for an hour instead of a minute, and a daemon under load for ten minutes.
soak: SECONDS = 600
soak: $(VENV)/.test
	$(BIN)/python -m tests.soak $(SECONDS)
	$(BIN)/pytest -q --hypothesis-profile=soak -o timeout=0 tests/properties tests/differential
	FAULT_ROUNDS=25 $(BIN)/pytest -q -o timeout=0 tests/faults
	$(BIN)/python -m tests.corruption.slips 30000
	$(BIN)/python -m tests.false_fires.texts 300
	$(MAKE) fuzz SECONDS=600

# Programs of others that tests speak to; without npm these tests are skipped.
node: $(NODE)/.done

# Pinned versions with hashes; after a change of pyproject.toml.
lock: $(VENV)/.test
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate \
		--no-header --no-emit-index-url --no-emit-find-links --extra build \
		pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate \
		--no-header --no-emit-index-url --no-emit-find-links --extra build --extra mcp --extra open \
		--extra parquet --extra test \
		pyproject.toml -o tests/requirements.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate \
		--no-header --no-emit-index-url --no-emit-find-links --extra bench --no-deps \
		pyproject.toml -o tests/bench/requirements.lock
	echo 'atheris>=3,<4' | $(BIN)/uv pip compile -q --python-version 3.11 --generate-hashes \
		--no-annotate --no-header --no-emit-index-url --no-emit-find-links \
		- -o tests/fuzz/requirements.lock

clean:
	rm -rf $(VENV) .bench .fuzz build *.egg-info

$(VENV)/.runtime: requirements.lock pyproject.toml
	@sh tests/make_venv.sh $(PYTHON) $(VENV)
	@$(INSTALL) --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.test: $(VENV)/.runtime tests/requirements.lock
	@$(INSTALL) --require-hashes -r tests/requirements.lock
	@touch $@

$(NODE)/.done: tests/node/package-lock.json
	@npm ci --prefix tests/node --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(VENV)/.fuzz: $(VENV)/.test tests/fuzz/requirements.lock
	@$(INSTALL) --require-hashes -r tests/fuzz/requirements.lock
	@touch $@

$(VENV)/.bench: $(VENV)/.runtime tests/bench/requirements.lock
	@$(INSTALL) --require-hashes --no-deps -r tests/bench/requirements.lock
	@touch $@
