# Every target sets up its own virtual environment on first use. PYTHON chooses the interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYSPARKS := 4.1 4.2 4.3
PROFILE ?= small
OUTPUT ?= evaluation
KILLS ?= 1000
INPUTS ?= 100000
SEED ?= 0

.DEFAULT_GOAL := help

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; set PYTHON=..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip --constraint constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

setup: $(READY) ## Make the virtual environment

test-fast: $(READY) ## Run the tests that need no Spark, with few random streams (under a minute)
	HYPOTHESIS_PROFILE=fast $(BIN)/pytest -n 2 -m "not slow" tests/unit tests/property

test: $(READY) ## Run the tests, with coverage
	$(BIN)/pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered --cov-fail-under=90 --durations=40

test-nightly: $(READY) ## Run all tests with thousands of random streams, and on each supported PySpark
	HYPOTHESIS_PROFILE=nightly $(BIN)/pytest
	$(MAKE) test-pyspark

test-kills: $(READY) ## Kill cleaning programs 1,000 times, in all topologies, and compare what they write (about an hour)
	$(BIN)/python -m tests.kills --kills $(KILLS)

test-fuzz: $(READY) ## Clean 100,000 odd inputs: files, records of topics, checkpoints, rules (about an hour)
	HYPOTHESIS_PROFILE=nightly $(BIN)/pytest tests/property/test_rules_fuzz.py tests/spark/test_odd_records.py
	$(BIN)/python -m tests.fuzz --inputs $(INPUTS) --seed $(SEED)

# PySpark 4.1 and 4.2 leave sockets open, which is no fault of the tests.
test-pyspark: $(PYSPARKS:%=$(VENV)-pyspark-%/.ready) ## Run the Spark tests on each supported PySpark
	set -e; for version in $(PYSPARKS); do \
		echo "PySpark $$version"; \
		$(VENV)-pyspark-$$version/bin/pytest -W ignore::ResourceWarning tests/spark; \
	done

$(VENV)-pyspark-%/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(@D)
	grep -vE '^(py4j|pyspark)==' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --constraint $(@D)/constraints.txt --editable '.[dev]' 'pyspark==$*.*'
	@touch $@

lint: $(READY) ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY) ## Build the documents and the API reference as pages in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

demo: $(READY) ## Clean a stream of generated shopping transactions on Spark
	$(BIN)/sparkbleach demo

demo-kafka: $(READY) ## Clean a topic into a topic while rules change, with a broker on this machine
	$(BIN)/sparkbleach demo-kafka

evaluate: $(READY) ## Run all experiments and write a report (PROFILE=tiny, small or full; OUTPUT=a directory)
	$(BIN)/sparkbleach bench --profile $(PROFILE) --output $(OUTPUT)

bench: $(READY) ## Measure throughput and latency on Spark (about ten minutes)
	$(BIN)/python -m sparkbleach.evaluate.bench.spark

bench-rules: $(READY) ## Measure what rule updates cost on Spark (about four minutes)
	$(BIN)/python -m sparkbleach.evaluate.bench.rules

bench-kafka: $(READY) ## Measure throughput from topic to topic (about three minutes)
	$(BIN)/python -m sparkbleach.evaluate.bench.kafka

bench-long: $(READY) ## Watch memory and checkpoint over 10 M tuples (about five minutes)
	$(BIN)/python -m sparkbleach.evaluate.bench.long_run

bench-kernel: $(READY) ## Measure the kernel on one core (about two minutes)
	$(BIN)/python -m sparkbleach.evaluate.bench.kernel

bench-cliffs: $(READY) ## Measure what must not cost more than its bound, on one core (about two minutes)
	$(BIN)/python -m sparkbleach.evaluate.bench.cliffs

bench-topologies: $(READY) ## Measure lanes and the paper's topology on Spark (about five minutes)
	$(BIN)/python -m sparkbleach.evaluate.bench.topologies

clean: ## Remove everything that the other targets made
	rm -rf $(VENV) $(VENV)-pyspark-* .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage dist build site
	find . -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help setup test-fast test test-nightly test-kills test-fuzz test-pyspark lint format docs demo demo-kafka evaluate bench bench-rules bench-kafka bench-long bench-kernel bench-topologies bench-cliffs clean
