# ksi: `make demo` and `make test` need Debian, Python 3.11 and make; the rest is installed here.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test lint types unit conformance faults bench lock clean

demo: $(VENV)/.runtime
	@$(BIN)/ksi demo

test: lint types unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

unit: $(VENV)/.test
	$(BIN)/pytest -q

conformance: $(VENV)/.test
	$(BIN)/pytest -q -m conformance

faults: $(VENV)/.test
	$(BIN)/pytest -q -m faults

bench: $(VENV)/.runtime
	$(BIN)/python tests/bench/run.py

# Pinned versions with hashes; after a change of pyproject.toml.
lock: $(VENV)/.test
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate \
		--no-header --no-emit-index-url --no-emit-find-links --extra build \
		pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate \
		--no-header --no-emit-index-url --no-emit-find-links --extra build --extra test \
		pyproject.toml -o tests/requirements.lock

clean:
	rm -rf $(VENV) build *.egg-info

$(VENV)/.runtime: requirements.lock pyproject.toml
	@sh tests/make_venv.sh $(PYTHON) $(VENV)
	@$(INSTALL) --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.test: $(VENV)/.runtime tests/requirements.lock
	@$(INSTALL) --require-hashes -r tests/requirements.lock
	@touch $@
