# Every target sets up what it needs in .venv, with uv if it is installed, else pip. PYTHON names another interpreter.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
CLIENT := clients/typescript
# $(call venv,FOLDER) creates a virtual environment, $(call install,FOLDER,WHAT) installs packages into it.
ifneq ($(shell command -v uv),)
venv = uv venv -q --python $(PYTHON) $(1)
install = uv pip install -q --python $(1)/bin/python $(2)
else
venv = $(PYTHON) -m venv $(1)
install = $(1)/bin/python -m pip install -q --disable-pip-version-check $(2)
endif

.PHONY: demo test browser live live-quick storm quick affected check lint fix docs bench manual package clean
.PHONY: dialects baselines labels fixtures schema secret-rules typescript typescript-package typescript-runtimes

demo: .venv/.runtime
	$(BIN)/tooltap demo

# All tests but those in a browser and those of the laboratories. Many wait for processes: more workers than cores.
TEST_WORKERS ?= $(shell $(PYTHON) -c 'import os; print(max(os.cpu_count(), min(3 * os.cpu_count(), 12)))')
test: .venv/.dev
	$(BIN)/pytest -q -rfEs -n $(TEST_WORKERS) --dist worksteal -m 'not browser and not lab'

# Install agents from the package registry, and run them beside a daemon with a scripted model: no keys, no network.
# AGENTS='claude codex': only these; CELLS='gateway/* run/text': of the matrix only these. LATEST=1: their newest versions, and build/live/report.md about them.
live: .venv/.dev $(CLIENT)/dist/.built
	$(BIN)/python -m tests.live $(if $(LATEST),--latest) $(if $(CELLS),--cells '$(CELLS)') $(AGENTS)

# A part of it in under five minutes. What cannot be had is not run: the last line says so.
live-quick: .venv/.dev
	-timeout 150 $(MAKE) $(CLIENT)/dist/.built
	$(BIN)/python -m tests.live --quick

# Everything at once, while everything fails: publishers, subscribers, answers, exports, searches, a browser, under kills,
# full disks, jumps of the clock, cut connections; then compare everything. MINUTES=10 by default; SEED=… repeats the faults.
storm: .venv/.dev
	$(BIN)/python -m tests.storm $(MINUTES:%=--minutes %) $(SEED:%=--seed %)

# The page in Chromium, Firefox and WebKit.
browser: .venv/.dev
	$(BIN)/pytest -q -rfEs -n auto --dist loadfile -m 'browser and not lab'

# A verdict in a minute: the linter, the types, and all quick tests that start no process and no browser and wait for
# nothing.
# The types are checked beside the tests; mypy keeps what it knows in .mypy_cache.
QUICK := not (process or browser or timing or slow or lab)
quick: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@mkdir -p build
	@$(BIN)/mypy >build/types.txt 2>&1 & types=$$!; \
	$(BIN)/pytest -q -rfEs -n auto -m '$(QUICK)'; tests=$$?; \
	wait $$types; types=$$?; cat build/types.txt; test $$tests = 0 && test $$types = 0

# Run the tests whose imports lead to what differs from SINCE (main), and those beside it: see tests/affected.py.
affected: .venv/.dev
	$(BIN)/pytest -q -rfEs -n auto -m 'not lab' $$($(BIN)/python -m tests.affected $(SINCE:%=--since %))

# make bench ROWS='trace normalize': run benchmarks, print a table, and write build/bench.json. All rows take half an hour
# on an idle machine; SCALE=0.1 does a tenth of the work, RUNS=9 repeats it more often.
# CAPTURES='<folder with a manifest.json> …': normalize these recordings instead of the fixtures.
# GOLDENS=<file>: also normalize these records of Happier. LONG=1: also measure a million events.
# COMPARE=<git ref>: measure this tree and that one alternately, and print new / old; build/compare.json.
bench: .venv/.dev
	$(BIN)/python -m tests.bench $(ROWS) $(CAPTURES:%=--captures %) $(GOLDENS:%=--goldens %) $(LONG:%=--long) \
		$(RUNS:%=--runs %) $(SCALE:%=--scale %) $(COMPARE:%=--compare %) \
		--json build/$(if $(COMPARE),compare,bench).json

check: lint test

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Write the rules by which secrets are masked from those of secret scanners: see docs/NOTICE.
secret-rules: .venv/.scanners
	$(BIN)/python -m tests.secrets

# Build the documentation as a site: build/site/index.html. Warnings are errors; nothing is fetched.
SITE := build/site
docs: .venv/.dev
	$(BIN)/sphinx-build -W --keep-going -q -c docs -d $(SITE)/.doctrees . $(SITE)

# Write what is made of the folders in normalizers/dialects/ and of their recordings: tables, pages, samples, snapshots.
dialects: .venv/.dev
	$(BIN)/python -m tests.dialects

# Write the reference page, JSON Schema and TypeScript types from the structs in protocol/. Refuses breaking changes.
schema: .venv/.dev
	$(BIN)/python -m tests.schema

# Build the client for Node and browsers, and test it against the daemon in this folder.
typescript: .venv/.runtime $(CLIENT)/node_modules/.package-lock.json
	cd $(CLIENT) && PATH="$(abspath $(BIN)):$$PATH" npm test

# Pack it as it is released, into dist/: twice, with the same bytes, and with the files that belong there and no other.
typescript-package: .venv/.dev
	$(BIN)/python -m tests.npm_package

# The packed client under Node 20, 22 and 24, Deno and Bun, which the package registry has. What cannot be installed is
# said, and fails only in CI.
typescript-runtimes: .venv/.dev $(CLIENT)/node_modules/.package-lock.json
	$(BIN)/python -m tests.runtimes

# Update the events of the curated fixtures after a change of the normalizers, and show what changed.
fixtures: .venv/.runtime
	$(BIN)/tooltap fixtures update tests/fixtures/curated

# Record the packaged baselines: make baselines CAPTURES='<folder> …', each with a folder for each agent, which contains
# recordings and a meta.json with the agent's version. What several of them have of one agent and version is recorded
# together. Dialects of which they have nothing are recorded from the fixtures, whose folders state the versions. Baselines
# without a recording stay, and are named.
BASELINES = traces/static/baselines
RECORDED = build/baselines
BASELINED = aider-history cline-session continue-session droid-session droid-stream hermes-db kimi-session \
	opencode-db qwen-chat vibe-session
baselines: .venv/.runtime
	rm -rf $(RECORDED)
	version() { $(BIN)/python -c 'import json, sys; print(json.load(open(sys.argv[1]))["version"])' "$$1/meta.json"; }; \
	for agent in $(sort $(notdir $(patsubst %/meta.json,%,$(wildcard $(CAPTURES:%=%/*/meta.json))))); do \
		folders=$$(for folder in $(CAPTURES); do ls -d $$folder/$$agent 2>/dev/null; done); \
		for version in $$(for folder in $$folders; do version $$folder; done | sort -u); do \
			same=$$(for folder in $$folders; do test "$$(version $$folder)" != "$$version" || echo $$folder; done); \
			$(BIN)/tooltap baseline record --out $(RECORDED) --agent-version "$$version" $$same || exit 1; \
		done; \
	done
	for folder in $(filter-out %-written,$(wildcard $(BASELINED:%=tests/fixtures/%/*))); do \
		$(BIN)/tooltap baseline record --out $(RECORDED) --agent-version "$${folder##*-}" $$folder || exit 1; \
	done
	$(BIN)/tooltap baseline record --out $(RECORDED) tests/fixtures/claude-sdk  # states Claude Code's version
	cp -r $(RECORDED)/. $(BASELINES)
	@for file in $$(cd $(BASELINES) && ls */*.json); do \
		test -e $(RECORDED)/$$file || echo "$(BASELINES)/$$file: nothing was recorded of it, so it stays"; \
	done

# Write the types of lines that released builds contain and tooltap does not read, from packages of the npm registry:
# 300 MB.
labels: .venv/.dev
	$(BIN)/python -m tests.labels

# Write the manual page and the completion scripts that the package installs.
manual: .venv/.dev
	$(BIN)/python -m tests.manual

# Build the sdist and the wheel, install the wheel with every Python that is here, with the oldest and the newest packages,
# and run its commands: tests/release.py. Type-check a project that uses the client.
package: .venv/.dev
	$(BIN)/python -m tests.release

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "tooltap needs Python 3.11 or later" >&2; exit 1; }
	$(call venv,.venv)

# In a variable, as the comma would end an argument of `call`.
INSTALLED = '.[hyperscan,prices]'
.venv/.runtime: .venv/bin/python pyproject.toml
	$(call install,.venv,-e $(INSTALLED))
	touch $@

.venv/.dev: .venv/bin/python pyproject.toml
	$(call install,.venv,-e '.[dev]')
	touch $@ .venv/.runtime

# npm writes this file last. Nothing is built on installing: the next rule does.
$(CLIENT)/node_modules/.package-lock.json: $(addprefix $(CLIENT)/,package.json package-lock.json)
	cd $(CLIENT) && npm ci --ignore-scripts --no-fund --no-audit
	touch $@

$(CLIENT)/dist/.built: $(CLIENT)/node_modules/.package-lock.json $(CLIENT)/tsconfig.json $(wildcard $(CLIENT)/*/*.ts)
	cd $(CLIENT) && npm run build
	touch $@

.venv/.mutants: .venv/.dev
	$(call install,.venv,'cosmic-ray>=8.4' 'pytest-cov>=6.0')
	touch $@

build/generators/bin/datamodel-codegen:
	$(call venv,build/generators)
	$(call install,build/generators,'datamodel-code-generator>=0.89')

.venv/.scanners: .venv/.dev
	$(call install,.venv,kingfisher-secret-scanner==1.5.0 kingfisher-bin==1.90.0)
	touch $@

clean:
	rm -rf .venv build dist src/*.egg-info $(CLIENT)/dist $(CLIENT)/node_modules

include tests/Makefile
