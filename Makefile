# Every target sets up what it needs in .venv, with uv if it is installed, else pip. PYTHON names another interpreter.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
# $(call venv,FOLDER) creates a virtual environment, $(call install,FOLDER,WHAT) installs packages into it.
ifneq ($(shell command -v uv),)
venv = uv venv -q --python $(PYTHON) $(1)
install = uv pip install -q --python $(1)/bin/python $(2)
else
venv = $(PYTHON) -m venv $(1)
install = $(1)/bin/python -m pip install -q --disable-pip-version-check $(2)
endif

.PHONY: demo test check lint fix docs clean
.PHONY: dialects baselines fixtures schema secret-rules typescript package
.PHONY: bench corpus goldens renames views prices endless newcomer soak
.PHONY: attacks containment damages faults faults-nats fuzz linear mutants nonsense oddities race secrets stalls

demo: .venv/.runtime
	$(BIN)/tooltap demo

test: .venv/.dev
	$(BIN)/pytest -q -rfEs -n auto

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

# Account for every line of recordings: make corpus CORPUS='<folder with a manifest.json> …'
corpus: .venv/.runtime
	$(BIN)/python -m tests.kit.corpus $(CORPUS)

# Find every text again that recordings say went to the model: make views CAPTURES='<folder with a manifest.json> …'
views: .venv/.dev
	$(BIN)/python -m tests.model_texts $(CAPTURES)

# Compare estimated costs with those that agents state: make prices CAPTURES='<folder with a manifest.json> …'
prices: .venv/.dev
	$(BIN)/python -m tests.prices $(CAPTURES)

# Compare with recorded cases of Happier: make goldens GOLDENS=<file>
goldens: .venv/.runtime
	$(BIN)/python -m tests.kit.goldens $(GOLDENS)

# make endless DIALECTS='acp or codex-mcp': a million lines each, in which nothing ever ends; `make test` uses fewer.
endless: .venv/.dev
	TOOLTAP_ENDLESS_LINES=1000000 $(BIN)/pytest -q -n auto tests/normalizers/core/test_bounded_state.py -k '$(DIALECTS)'

# Damage recordings of every dialect in random ways, and check the events: ten million lines, in under an hour on two
# cores. SEED=… repeats a run, SEED=… CASE=… one stream of it; LINES, JOBS and DIALECTS='acp,codex-mcp' say how much of it.
# CAPTURES='<folder with a manifest.json> …': damage these recordings, too.
fuzz: .venv/.dev
	$(BIN)/python -m tests.fuzz $(LINES:%=--lines %) $(SEED:%=--seed %) $(CASE:%=--case %) $(JOBS:%=--jobs %) \
		$(DIALECTS:%=--dialects %) $(if $(CAPTURES),--captures $(CAPTURES))

# Nonsense that `make test` does not try: to the socket, to the gateway, into masking.
nonsense: .venv/.dev
	TOOLTAP_HYPOTHESIS=fuzz $(BIN)/pytest -q -n auto --timeout 3600 -k "nonsense or any_json" tests

# Put an error into every call that a line passes, and a value of every other type into every field of every recording.
containment: .venv/.dev
	TOOLTAP_SITES=0 $(BIN)/pytest -q -n auto --timeout 3600 -s tests/daemon/containment
	$(BIN)/python -m tests.normalizers.sweep

# Try to make every expression and every string field of every dialect slow. It takes an hour; `make test` tries a sample.
# FIELDS='claude-stream or acp': these alone.
linear: .venv/.dev
	TOOLTAP_LINEAR=1 $(BIN)/pytest -q -n auto --timeout 7200 tests/linear $(FIELDS:%=-k '%')

# Attack a daemon as another user (which needs root), as a server on another port, and as a page in Chromium.
attacks: .venv/.dev
	$(BIN)/pytest -q -rfEs -n auto tests/attacks

# Send a daemon everything that could hold it, in full size, and check that it answers and stops: about a minute.
stalls: .venv/.dev
	TOOLTAP_STALLS_SCALE=1 $(BIN)/pytest -q -s tests/daemon/test_stalls.py

# Make every I/O call of the daemon and the taps fail once, and kill them there: 80 minutes of processor time, so about
# an hour on two idle cores. SAMPLE=300: so many calls, a minute of it, chosen by SEED. SCENARIOS='commit start': only
# these. ONLY=start/open/3/EIO: what a report names.
faults: .venv/.dev
	$(BIN)/python -m tests.faults $(SAMPLE:%=--sample %) $(SEED:%=--seed %) \
		$(if $(SCENARIOS),--scenarios $(SCENARIOS)) $(if $(ONLY),--only $(ONLY))

# Kill, stop and cut off the servers of a NATS cluster under daemons that use it, SECONDS long (300), by SEED.
faults-nats: .venv/.dev
	$(BIN)/python -m tests.daemon.journal.nats_cluster $(SECONDS:%=--seconds %) $(SEED:%=--seed %)

# Damage a journal in a thousand ways, by seed, and check that all is reported, repaired, and never served garbled.
damages: .venv/.dev
	$(BIN)/python -m tests.daemon.journal.damages $(SEEDS)

# Stop processes, fill disks and take file descriptors away for half a minute each; `make test` does for a second.
oddities: .venv/.dev
	TOOLTAP_LASTS=30 $(BIN)/pytest -q -n auto --timeout 600 tests/daemon/test_oddities.py
	TOOLTAP_KILLS=30 TOOLTAP_DAMAGES=1000 $(BIN)/pytest -q -n auto --timeout 600 \
		tests/daemon/views/test_rewriter_kill9.py tests/daemon/taps/test_spool.py tests/daemon/search/test_indexing.py

# Exchange the parents of files for others, for a minute, while display tools open them; `make test` does for a second.
race: .venv/.dev
	TOOLTAP_RACE=60 $(BIN)/pytest -q -s tests/attacks/test_display_tools.py -k exchanged

# make mutants SAMPLE=50 SEED=7 SINCE=main MODULES='daemon/hub': change the product in small ways, one at a time, and count
# the changes that no test notices. The first run on a tree measures which test runs which line, which takes minutes.
mutants: .venv/.mutants
	$(BIN)/python -m tests.mutants $(SAMPLE:%=--sample %) $(SEED:%=--seed %) $(SINCE:%=--since %) $(MODULES)

# Write the rules by which secrets are masked from those of secret scanners: see docs/NOTICE.
secret-rules: .venv/.scanners
	$(BIN)/python -m tests.secrets

# Measure masking: the examples of fake secrets of a public scanner, the lines of folders that have none, and the time.
# FOLDERS='../recordings …': other folders than tests/fixtures.
secrets: .venv/.scanners
	$(BIN)/python -m tests.secrets.measure $(FOLDERS)

# Fill a home with 100 sessions of recordings, run `tooltap up` there for the first time, and measure when they are shown:
# make newcomer CAPTURES='<folder> …'
newcomer: .venv/.dev
	$(BIN)/python -m tests.newcomer $(CAPTURES)

# Send a million events through a daemon with a small journal, and check that nothing grows. It takes minutes.
soak: .venv/.dev
	$(BIN)/python -m tests.soak

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
typescript: .venv/.runtime
	cd clients/typescript && npm ci --no-fund --no-audit
	cd clients/typescript && PATH="$(abspath $(BIN)):$$PATH" npm test

# Update the events of the curated fixtures after a change of the normalizers, and show what changed.
fixtures: .venv/.runtime
	$(BIN)/tooltap fixtures update tests/fixtures/curated

# Record the packaged baselines: make baselines CAPTURES='<folder> …', each with a folder for each agent, which contains
# recordings and a meta.json with the agent's version. What several of them have of one agent is recorded together.
baselines: .venv/.runtime
	rm -rf traces/static/baselines
	for agent in $(sort $(notdir $(patsubst %/meta.json,%,$(wildcard $(CAPTURES:%=%/*/meta.json))))); do \
		folders=$$(for folder in $(CAPTURES); do ls -d $$folder/$$agent 2>/dev/null; done); \
		version=$$(set -- $$folders && \
			$(BIN)/python -c 'import json, sys; print(json.load(open(sys.argv[1]))["version"])' "$$1/meta.json") && \
		$(BIN)/tooltap baseline record --out traces/static/baselines --agent-version "$$version" $$folders || exit 1; \
	done

# Rename every field and type in recordings, one at a time, and report how many of the changes drift detection finds:
# make renames CAPTURES='<folder with a manifest.json> …'
renames: .venv/.runtime
	$(BIN)/python -m tests.kit.renames $(CAPTURES)

# Build the sdist and, from it, the wheel. Install the wheel in an empty environment without access to the sources, run
# its commands, and type-check a project that uses the client.
package: .venv/.dev
	rm -rf build dist
	$(BIN)/python -m build --outdir dist .
	$(call venv,build/venv)
	$(call install,build/venv,dist/*.whl)
	cd build && venv/bin/tooltap --version
	cd build && venv/bin/tooltap normalize --stats ../cli/static/demo/claude-code.jsonl >/dev/null
	cd build && venv/bin/tooltap demo >/dev/null
	cp -r clients/python build/project
	cd build/project && $(abspath $(BIN))/mypy --strict --config-file= --python-executable ../venv/bin/python .

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "tooltap needs Python 3.11 or later" >&2; exit 1; }
	$(call venv,.venv)

.venv/.runtime: .venv/bin/python pyproject.toml
	$(call install,.venv,-e .)
	touch $@

.venv/.dev: .venv/bin/python pyproject.toml
	$(call install,.venv,-e '.[dev]')
	touch $@ .venv/.runtime

.venv/.mutants: .venv/.dev
	$(call install,.venv,'cosmic-ray>=8.4' 'pytest-cov>=6.0')
	touch $@

.venv/.scanners: .venv/.dev
	$(call install,.venv,kingfisher-secret-scanner==1.5.0 kingfisher-bin==1.90.0)
	touch $@

clean:
	rm -rf .venv build dist src/*.egg-info clients/typescript/dist clients/typescript/node_modules
