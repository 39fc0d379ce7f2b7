# Every target works from a bare clone with nothing but Python >= 3.11 and make. `make help` lists them.
# LAKELOG_VENV=<folder> uses an environment that you keep yourself instead of .venv, as it is.

.DEFAULT_GOAL := help
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory

ifdef LAKELOG_VENV
VENV := $(LAKELOG_VENV)
READY :=
else
VENV := .venv
READY := $(VENV)/.installed
endif
BIN := $(VENV)/bin

.PHONY: help setup

help: ## list these targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: $(READY) ## install everything into .venv (the second time is instant)

$(VENV)/.installed: requirements.lock pyproject.toml tools/setup tools/find-python
	@tools/setup $(VENV)
	@touch $@
