# Everything is set up in .venv when first needed; a second make does not install again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DONE := $(VENV)/.installed
INPUT ?=
OUTPUT ?=
ARGS ?=
SAMPLE := out/sample

.PHONY: help install run test quick-test check bench clean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(DONE)  ## make .venv with .venv/bin/spectrabeam in it

$(DONE): setup.py pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 10) <= v <= (3, 13) else f"Python 3.10 to 3.13 is needed, this is {v[0]}.{v[1]}: set PYTHON=…, such as make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=24'  # older ones search for very long
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	@touch $@

run: $(DONE)  ## extract a simulated sample; or your own data: make run INPUT=… OUTPUT=… ARGS=…
ifeq ($(strip $(INPUT)),)
	@test -e $(SAMPLE)/waveforms/about.json || $(BIN)/spectrabeam sample --output $(SAMPLE)/waveforms --count 2000
	$(BIN)/spectrabeam extract --config run_configs/sample.yaml --input $(SAMPLE)/waveforms --output $(or $(OUTPUT),$(SAMPLE)/features) $(ARGS)
	@echo
	@echo 'Look at it:     $(BIN)/spectrabeam inspect $(or $(OUTPUT),$(SAMPLE)/features)'
	@echo 'Check it:       $(BIN)/spectrabeam verify $(or $(OUTPUT),$(SAMPLE)/features)'
	@echo "Your own data:  make run INPUT=recordings/ OUTPUT=features/ ARGS=\"--raw-dtype '<f4' --sample-rate 25600\""
else
	$(BIN)/spectrabeam extract --input $(INPUT) --output $(or $(OUTPUT),$(error set OUTPUT to the folder of the dataset)) $(ARGS)
endif

test: check  ## all checks and tests
	$(BIN)/python -m pytest

quick-test: $(DONE)  ## the tests that take about a minute
	$(BIN)/python -m pytest -m 'not slow' --ignore tests/regressions

check: $(DONE)  ## formatter, linter and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright

bench: $(DONE)  ## this program and what one would write instead, side by side
	$(BIN)/python benchmarks/extract.py

clean:  ## remove what make made
	rm -rf $(VENV) out build dist *.egg-info .pytest_cache .ruff_cache
