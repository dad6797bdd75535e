# Two commands do everything on a machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_TEXT := The food was great but the service was awful, and the waiter never came back. I will not return.

.PHONY: demo test lint types layers unit fuzz browser docs release-check test-oldest lock clean

demo: $(VENV)/ready
	$(BIN)/slalom explain "$(DEMO_TEXT)" --html report.html

test: lint types layers unit

lint: $(VENV)/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python scripts/lint_js.py

types: $(VENV)/ready
	$(BIN)/pyright --pythonpath $(BIN)/python

layers: $(VENV)/ready
	$(BIN)/lint-imports

unit: $(VENV)/ready browser
	$(BIN)/pytest -n 2 --cov --cov-report=term --cov-fail-under=90

# Ten times as many odd inputs as the suite has, from a new seed; `SLALOM_FUZZ_SEED=15 make fuzz` repeats one.
fuzz: $(VENV)/ready
	seed=$${SLALOM_FUZZ_SEED:-$$(date +%s)}; echo "SLALOM_FUZZ_SEED=$$seed"; \
	SLALOM_FUZZ=10 SLALOM_FUZZ_SEED=$$seed $(BIN)/pytest -n 2 --timeout 3600 tests/fuzz

# The site, in site/: open site/index.html. The suite builds it, too; a broken link is an error.
docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Wheel and sdist, built, looked into, installed in fresh environments without extras and with each extra alone,
# and tried. It takes a while; `make release-check ONLY=base,web` does a part of it.
release-check:
	$(PYTHON) scripts/release_check.py --only "$(ONLY)" --without "$(WITHOUT)"

# The suite's core with the oldest transformers of the range, in an environment of its own (.venv-oldest).
test-oldest:
	$(PYTHON) scripts/test_oldest.py

# The browser tests need Chromium. Where it can neither be found nor be installed they are skipped; nothing fails.
browser:
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then :; \
	elif ! command -v apt-get >/dev/null; then echo "browser tests will be skipped: no Chromium, and no apt-get to install it"; \
	elif [ "$$(id -u)" != 0 ]; then echo "browser tests will be skipped: no Chromium; as root: apt-get install chromium"; \
	elif apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; then :; \
	else echo "browser tests will be skipped: apt-get could not install Chromium"; fi

# One environment for both commands; made anew when the dependencies change.
$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# Writes down what is installed and tested; to move on, widen or upgrade in $(VENV), test, and lock again.
lock: $(VENV)/ready
	$(BIN)/python scripts/lock.py
	touch $(VENV)/ready

clean:
	rm -rf $(VENV) $(VENV)-oldest dist site report.html .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis
