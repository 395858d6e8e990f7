# Two commands do everything on a machine with Python 3.11+, make and Java 17+:
#   make demo    kills Spark's own Kafka sink and this one with -9 and counts what readers see
#   make test    checks and tests all of it
# Set-up happens on the way and costs nothing the second time.

PYTHON ?= python3
VENV := .venv/bin
# Most tests wait for brokers and Spark most of the time.
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long check bench bench-check bench-growth lock clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv from the lock (every other target does this first)
	@$(PYTHON) tools/setup_venv.py

demo: setup ## kill Spark's own Kafka sink and this one with -9, count what readers see
	@mkdir -p build
	@$(VENV)/twophase demo --report build/demo.html

check: setup ## ruff and mypy
	@$(VENV)/ruff format --check .
	@$(VENV)/ruff check .
	@$(VENV)/mypy

test: check ## every check and every test that takes seconds
	@$(VENV)/python tools/fetch_jars.py
	@$(VENV)/coverage erase
	@$(VENV)/coverage run -m pytest -m "not long" --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
	@$(VENV)/coverage combine -q
	@$(VENV)/coverage report

test-long: setup ## the long proofs, after the short ones
	@$(VENV)/python tools/fetch_jars.py
	@$(VENV)/python -m pytest -m "long"

bench: setup ## measure speed beside its peers; writes build/bench.json
	@$(VENV)/python -m bench

bench-check: bench ## fail when a figure misses what it must reach
	@$(VENV)/python -m bench check

bench-growth: setup ## how speed and memory follow the size of the work; draws docs/growth-*.svg
	@$(VENV)/python -m bench growth

lock: setup ## resolve pyproject.toml anew into requirements/dev.txt
	@$(VENV)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --all-extras --group dev \
	  -c requirements/constraints.txt pyproject.toml -o requirements/dev.txt

clean: ## remove what the targets made
	rm -rf .venv build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
