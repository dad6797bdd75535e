# Two commands do everything on a machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_TEXT := The food was great but the service was awful, and the waiter never came back. I will not return.

.PHONY: demo test lint types layers unit clean

demo: $(VENV)/ready
	$(BIN)/slalom explain "$(DEMO_TEXT)" --html report.html

test: lint types layers unit

lint: $(VENV)/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/ready
	$(BIN)/pyright --pythonpath $(BIN)/python

layers: $(VENV)/ready
	$(BIN)/lint-imports

unit: $(VENV)/ready
	$(BIN)/pytest -n 2 --cov --cov-report=term --cov-fail-under=90

# One environment for both commands; made anew when the dependencies change.
$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) report.html .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis
