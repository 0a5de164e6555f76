# Every target sets up what it needs: a virtual environment in .venv (uv if it is there, else pip).
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check lint fix corpus goldens clean

demo: .venv/.runtime
	$(BIN)/tooltap demo

test: .venv/.dev
	$(BIN)/pytest -q

check: lint test

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# make corpus CORPUS=<folder with a manifest.json>
corpus: .venv/.runtime
	$(BIN)/python -m tooltap.traces.corpus $(CORPUS)

# make goldens GOLDENS=<file of the ancestor's recorded cases>
goldens: .venv/.runtime
	$(BIN)/python -m tooltap.traces.goldens $(GOLDENS)

.venv/bin/python:
	if command -v uv >/dev/null; then uv venv -q --python $(PYTHON) .venv; else $(PYTHON) -m venv .venv; fi

.venv/.runtime: .venv/bin/python pyproject.toml
	if command -v uv >/dev/null; then uv pip install -q --python $(BIN)/python -e .; else $(BIN)/python -m pip install -q --disable-pip-version-check -e .; fi
	touch $@

.venv/.dev: .venv/bin/python pyproject.toml
	if command -v uv >/dev/null; then uv pip install -q --python $(BIN)/python -e '.[dev]'; else $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'; fi
	touch $@ .venv/.runtime

clean:
	rm -rf .venv build dist src/*.egg-info
