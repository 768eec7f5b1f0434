# make demo    a real search on a small training repository, from init to a branch
# make test    all tests
# make check   format, lint, types, import rules, dependencies
# make bench-* slow proofs; each writes its results to docs/

# What these measure must not depend on what the user has learnt elsewhere, nor add to it.
export INFRARSI_BANK :=

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready

.PHONY: demo test check bench-witness bench-null bench-handmade bench-interpreters bench-examples bench-kills bench-judge bench-judge-cost bench-search bench-recheck clean

demo: $(INSTALLED)
	PATH="$(abspath $(BIN)):$$PATH" bash examples/demo.sh

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .

bench-witness: $(READY)
	$(BIN)/python tests/benches/witness_cost.py

bench-null: $(READY)
	$(BIN)/python tests/benches/null_confirmations.py

bench-handmade: $(READY)
	$(BIN)/python tests/benches/handmade.py

# INTERPRETERS="/opt/venvs/a ~/conda/envs/b": environments that hold torch
bench-interpreters: $(READY)
	$(BIN)/python tests/benches/interpreters.py $(INTERPRETERS)

bench-examples: $(READY)
	$(BIN)/python tests/benches/examples.py

bench-kills: $(READY)
	$(BIN)/python tests/benches/kills.py

bench-judge: $(READY)
	$(BIN)/python tests/benches/judge.py
	$(BIN)/python tests/benches/judge.py --confirm

# TABLES: a folder of measured tables, each with its sidecar (docs/tables.md)
bench-search: $(READY)
	$(BIN)/python tests/benches/search.py $(TABLES)

# PLACE: a repository with a finished search
bench-judge-cost: $(READY)
	$(BIN)/python tests/benches/judge_cost.py $(PLACE)

# PLACE: a repository with a finished search
bench-recheck: $(READY)
	$(BIN)/python tests/benches/recheck.py $(PLACE)

# What a user installs; and what a developer does besides.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[torch]'
	touch $(INSTALLED)

$(READY): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[torch,dev,examples]'
	touch $(READY)

clean:
	rm -rf $(VENV) .demo
