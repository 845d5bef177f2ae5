# Each target sets up what it needs (uv, the locked packages, Java); `make` alone lists them.
.DEFAULT_GOAL := help
.SUFFIXES:

# Compiled modules make every child process start in half the time; where this is set, none would be kept.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# Fast tiers first: a mistake shows before a JVM has started.
TIERS := $(wildcard tests/unit tests/property tests/golden tests/oracle tests/integration tests/acceptance)
BENCHES := $(patsubst benchmarks/%.py,bench-%,$(filter-out benchmarks/_%,$(wildcard benchmarks/*.py)))
SCRIPTS := $(wildcard scripts/*.sh deploy/docker/*.sh .ci/run .ci/*.sh .ci/kafka/run .ci/kafka/tool)

##@ Use it
demo: packages java ## watch real rebalances on this machine (ARGS="--duration 60")
	@$(BIN)/rebalance-monitor demo $(ARGS)

##@ Work on it
test: packages jdk ## every test: unit, property, golden, oracle, integration, acceptance (ARGS="-k name")
	@$(BIN)/pytest $(TIERS) $(ARGS)
	@$(MAKE) --no-print-directory test-container ARGS="$(ARGS)"

# Not again: tests that kill and compare our own processes for minutes, whoever runs the broker.
OWN := $(addprefix --ignore=,$(wildcard tests/integration/streaming/spark/test_recovery.py \
    tests/integration/streaming/spark/test_determinism.py tests/integration/streaming/spark/test_operation.py \
    tests/integration/streaming/spark/test_time.py tests/acceptance/test_page.py))
test-container: packages jdk ## the tests of a broker again, on the container KAFKA_IMAGE names
	@KAFKA_UNDER_TEST=container $(BIN)/pytest $(wildcard tests/integration tests/acceptance) $(OWN) $(ARGS) || [ $$? = 5 ]

test-%: packages jdk ## one tier: make test-integration
	@$(BIN)/pytest tests/$* $(ARGS)

test-unit: packages ## the tiers without Java, in seconds
	@$(BIN)/pytest $(wildcard tests/unit tests/property tests/golden) -m "not oracle and not broker and not spark and not container and not browser" $(ARGS)

check: packages ## lint, format, types and layering, changing nothing
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@if command -v shellcheck >/dev/null; then shellcheck $(SCRIPTS); else echo "shellcheck is not installed: shell scripts not checked"; fi
	@if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then cd kernel && cargo fmt --check && cargo clippy --quiet --locked -- --deny warnings; else echo "no cargo with rustfmt and clippy: kernel/ not checked"; fi

format: packages ## format the code and mend what ruff can
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format
	@if cargo fmt --version >/dev/null 2>&1; then cd kernel && cargo fmt; fi

bench: $(BENCHES) ## every benchmark (each prints its machine, sizes and seed)

bench-%: packages java ## one benchmark: make bench-assignors
	@$(BIN)/python -m benchmarks.$* $(ARGS)

clean: ## remove what the targets made here (the download caches stay)
	@rm -rf .venv .uv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist kernel/target

##@ Set-up (the targets above call these)
packages: ## uv, and the packages of uv.lock in .venv
	@sh scripts/packages.sh

java: ## Java 17 or newer
	@sh scripts/java.sh

jdk: ## Java with its compiler: the oracle's Java side is compiled here
	@sh scripts/java.sh jdk

help: ## this list
	@awk -F ':.*## ' '/^##@ /{printf "\n%s\n", substr($$0, 5)} /^[a-z%-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo test test-container test-unit check format bench clean packages java jdk help
