# Every target works from a bare clone with nothing but Python >= 3.11 and make; `make help` lists them.
#   PYTHON=<program>       the Python to make .venv with
#   LAKELOG_VENV=<folder>  an environment that you keep yourself: it is used as it is, instead of .venv
#   DATA=<folder>          where `make serve` keeps its data
#   PORT=<number>          where `make serve` listens
#   JOBS=<number>          how many processes `make test` has; unless said two for all tests, none besides itself for a part
#   ARGS="..."             arguments for the program behind the target, as in: make test ARGS=tests/unit

.DEFAULT_GOAL := help
SHELL := /bin/sh
JOBS ?= $(if $(ARGS),0,2)
MAKEFLAGS += --no-print-directory

ifdef LAKELOG_VENV
VENV := $(LAKELOG_VENV)
READY :=
else
VENV := .venv
READY := .venv/.installed
endif
BIN := $(VENV)/bin
# Tests start hundreds of processes, each of which would parse all it imports where the shell forbids to keep bytecode.
COMPILED := PYTHONDONTWRITEBYTECODE=
# An option with the value of a variable, if that was given to make itself: who has a PORT in his shell means another.
named = $(if $(filter command,$(firstword $(origin $1))),$2='$($1)')

# What `make long` runs, and how much of it, unless the environment has the name, behind LAKELOG_, with another number.
LONG := $(addprefix tests/,spark/test_jobs_together.py spark/test_jobs_exactly_once.py \
	acceptance/test_exactly_once_copy.py acceptance/test_client_transactions_kill.py acceptance/test_client_producer_kill.py \
	acceptance/test_client_consumer_kill.py powercut/test_loop_image.py powercut/test_power_cut.py \
	integration/test_bit_flips.py properties)
FOR_MINUTES = TOGETHER_S=180 SPARK_COPY_S=180 COPY_S=180 KILL_ROUNDS=20 POWER_CUTS=600 POWER_ROUNDS=10 BIT_FLIPS=2000 \
	ARROW_FUZZ_S=120 EXAMPLES=50 SEEDS=10000 SICK_SEEDS=300 FIRST_SEED=$(strip $(shell od -An -N3 -tu4 /dev/urandom))
unless_said = LAKELOG_$(word 1,$1)="$${LAKELOG_$(word 1,$1):-$(word 2,$1)}"

.PHONY: help setup serve test long lint types audit bench docs java s3 azure lock clean

help: ## list these targets
	@sed -n 's/^\([a-z0-9]*\):.*## \(.*\)/  make \1 # \2/p' $(MAKEFILE_LIST)

setup: $(READY) ## install everything into .venv; the second time is instant

serve: $(READY) ## run lakelog on this machine
	@exec $(BIN)/lakelog serve $(call named,DATA,--data) $(call named,PORT,--port) $(ARGS)

test: $(READY) ## run the tests, with Java 17 for the Spark ones and a server for those of object stores
	@tools/ensure-s3 >/dev/null || true
	@JAVA_HOME=$$(tools/ensure-java) && export JAVA_HOME $(COMPILED) && $(BIN)/python -m pytest --numprocesses $(JOBS) $(ARGS)

long: $(READY) ## run for minutes what `make test` runs for seconds: kills, copies, all jobs together, faults from seeds
	@$(foreach each,$(FOR_MINUTES),$(call unless_said,$(subst =, ,$(each)))) $(MAKE) test JOBS=$(JOBS) ARGS="$(LONG) $(ARGS)"

lint: $(READY) ## check style, format and the import law
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo --cache-dir .cache/import-linter

types: $(READY) ## check types, strictly
	@$(BIN)/basedpyright --pythonpath $(BIN)/python

audit: $(READY) ## ask which locked packages have known vulnerabilities, and write the SBOM
	@$(BIN)/python tools/audit.py

bench: $(READY) ## run the benchmarks, with Java 17 for those of the jobs
	@JAVA_HOME=$$(tools/ensure-java) && export JAVA_HOME && $(BIN)/python -m benchmarks $(ARGS)

docs: $(READY) ## write the tables of the documents, and the board, that belong to the code
	@for program in tools/docs_*.py tools/grafana_board.py; do $(BIN)/python $$program $(ARGS) || exit 1; done

java: ## print the Java home that the tests use, installing one where that is possible
	@tools/ensure-java

s3: ## print the S3-compatible server that the tests use, building it where Go is there
	@tools/ensure-s3

azure: ## print the emulator of Azure for the tests of az://, installing it where npm is there
	@tools/ensure-azure

lock: ## renew requirements.lock from pyproject.toml
	@tools/lock $(ARGS)

clean: ## remove .venv and every cache, never your data
	@rm -rf .venv .cache .pytest_cache .ruff_cache .hypothesis build dist spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.installed: requirements.lock pyproject.toml tools/setup tools/find-python
	@tools/setup .venv
	@touch $@
