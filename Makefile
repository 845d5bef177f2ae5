# Each target sets up what it needs (uv, the locked packages, Java); `make` alone lists them.
.DEFAULT_GOAL := help
.SUFFIXES:

# Compiled modules make every child process start in half the time; where this is set, none would be kept.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# Fast tiers first: a mistake shows before a JVM has started. Beside them, from the beginning, the containers of compose: no
# browser may be open while these come and go. Last the files that wait most, in the smallest pieces.
SPARK := tests/integration/streaming/spark
COMPOSE := tests/acceptance/deploy
OTHERS := $(filter-out $(SPARK) %__pycache__,$(wildcard tests/integration/streaming/*))
TIERS := $(COMPOSE) $(wildcard tests/unit tests/property tests/golden tests/fuzz tests/oracle) \
	$(wildcard tests/acceptance/test_*.py) tests/acceptance/situations tests/acceptance/advice $(SPARK) $(OTHERS)
BENCHES := $(patsubst benchmarks/%.py,bench-%,$(filter-out benchmarks/_%,$(wildcard benchmarks/*.py)))
CLASSES = $(BIN)/python scripts/spark_classes.py
SCRIPTS := $(wildcard scripts/*.sh deploy/docker/*.sh .ci/run .ci/*.sh .ci/kafka/run .ci/kafka/tool)

##@ Use it
demo: runtime java ## watch real rebalances on this machine (ARGS="--duration 60")
	@$(CLASSES)
	@$(BIN)/rebalance-monitor demo $(ARGS)

##@ Work on it
# Files side by side, each file in order; two more at a time than there are cores, as each waits for JVMs and time-outs.
WORKERS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2)))
PYTEST := $(BIN)/pytest --numprocesses=$(WORKERS) --maxprocesses=5 --dist=loadfile --no-loadscope-reorder

test: packages jdk classes ## every test: unit, property, golden, oracle, integration, acceptance (ARGS="-k name")
	@$(PYTEST) -m "not full" $(TIERS) $(ARGS)
	@$(MAKE) --no-print-directory test-container ARGS="$(ARGS)"

test-container: packages jdk classes ## what depends on the broker again, on the container KAFKA_IMAGE names
	@KAFKA_UNDER_TEST=container $(PYTEST) -m "cluster and not full" tests/integration $(ARGS) || [ $$? = 5 ]

test-%: packages jdk ## one tier: make test-integration
	@$(PYTEST) -m "not full" tests/$* $(ARGS)

test-unit: packages ## the tiers without Java, in seconds
	@$(PYTEST) $(wildcard tests/unit tests/property tests/golden tests/fuzz) -m "not full and not oracle and not broker and not spark and not container and not browser" $(ARGS)

# The sizes that `make test` cuts down to a smoke, and what it leaves out: hours.
test-long: export STREAM_KILLS = 20
test-long: export STREAM_EVENTS = 100000
test-long: export STREAM_OUTAGE = 120
test-long: export STREAM_BURST = 200000
test-long: export PLAYS = 50
test-long: export RECORDED_EVENTS = 100000
test-long: export ORACLE_CASES = 20000
test-long: export COLLECT_KILLS = 20
test-long: export DOWNTIME_ROUNDS = 15
test-long: export RESTARTS = 20
test-long: export NATIVE = yes
test-long: export JDK_JAVA_OPTIONS =
test-long: export WRITE_TRUST = 1
test-long: packages jdk classes ## kills, outages, bursts, random groups and the oracle at full size: hours
	@$(BIN)/pytest $(TIERS) tests/faults -m "long or full" -o log_cli=true -o log_cli_level=INFO $(ARGS)

test-situations: export WRITE_SITUATIONS = 1
test-situations: packages jdk classes ## real groups in every situation; its tables go into docs/explanation
	@$(BIN)/pytest tests/acceptance/situations/test_situations.py -m "" $(ARGS)

test-costs: export WRITE_COSTS = 1
test-costs: packages jdk classes ## true costs of real groups' rebalances beside the reported ones; tables in docs/explanation
	@$(BIN)/pytest tests/acceptance/situations/test_cost.py -m "" -o log_cli=true -o log_cli_level=INFO $(ARGS)

test-advice: export WRITE_ADVICE = 1
test-advice: packages jdk classes ## advice for real groups with and without each fault, and savings; tables in docs/reference
	@$(BIN)/pytest tests/acceptance/advice -m "" $(ARGS)

test-faults: export WRITE_TRUST = 1
test-faults: packages java classes ## every part through every fault; its table goes into docs/explanation/trust.md
	@$(BIN)/pytest tests/faults --numprocesses=2 --dist=load $(ARGS)

soak: packages java classes ## a monitor under load and faults, MINUTES of it; its tables go into docs/explanation/trust.md
	@$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),30) --document $(ARGS)

# Without PySpark, whose download is large and which serves no request.
LOWEST := .venvs/lowest
SECURITY := $(addprefix tests/unit/streaming/serve/test_,accesslog.py api.py app.py callers.py connections.py parameters.py \
	paths.py security.py server.py) tests/unit/streaming/simulation/test_what_if_query.py tests/fuzz
test-lowest: packages ## the web service's security tests on the lowest versions that the wheel allows
	@uv=$$(command -v uv || echo .uv/bin/uv); $$uv venv --quiet --clear --python $(BIN)/python $(LOWEST) && \
	$$uv pip compile --quiet --no-config --no-header --no-annotate --resolution lowest-direct \
		--python $(LOWEST)/bin/python pyproject.toml | grep -v -e '^pyspark' -e '^py4j' > $(LOWEST)/requirements.txt && \
	$$uv pip install --quiet --no-config --no-deps --python $(LOWEST)/bin/python -r $(LOWEST)/requirements.txt && \
	$$uv pip install --quiet --no-config --python $(LOWEST)/bin/python pytest pytest-timeout hypothesis && \
	$(LOWEST)/bin/python -m pytest $(SECURITY) $(ARGS)
.PHONY: test-lowest

# Newer connectors of Spark's may be missing from a repository: scripts/spark_versions.py says what is run then.
VERSIONS := 4.1.1 4.2.0 4.3.0
test-spark: packages jdk ## the job's tests on other releases of PySpark (VERSIONS="4.1.1 4.3.0")
	@$(BIN)/python -m scripts.spark_versions $(VERSIONS) $(ARGS)
.PHONY: test-spark

check: packages ## lint, format, types, layering and names, changing nothing
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/language.py --check
	@if command -v shellcheck >/dev/null; then shellcheck $(SCRIPTS); else echo "shellcheck is not installed: shell scripts not checked"; fi
	@if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then cd kernel && cargo fmt --check && cargo clippy --quiet --locked -- --deny warnings; else echo "no cargo with rustfmt and clippy: kernel/ not checked"; fi

format: packages ## format the code and mend what ruff can
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format
	@if cargo fmt --version >/dev/null 2>&1; then cd kernel && cargo fmt; fi

fuzz: packages ## every decoder and endpoint, 60 s each (SECONDS=600 TARGET=http SEED=7; CASE=FILE replays one)
	@$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1) $(TARGET:%=--target %) $(CASE:%=--case %)

# uv's own audit, by the lock: asks osv.dev, so it needs the network (and uv 0.13) and is no part of CI.
audit: packages ## known weaknesses of the packages that are deployed (asks osv.dev)
	@$$(command -v uv || echo .uv/bin/uv) audit --preview-features audit-command --locked --no-dev $(ARGS)

sbom: packages ## what is deployed, as CycloneDX in dist/: Debian's packages, Python's, jars (IMAGE=name: of an image)
	@mkdir -p dist
	@$(if $(IMAGE),docker run --rm --interactive --entrypoint python $(IMAGE) - /opt/rebalance-monitor <,$(BIN)/python) scripts/sbom.py >dist/sbom.part || { rm dist/sbom.part; exit 1; }
	@mv dist/sbom.part dist/sbom.cdx.json
	@echo dist/sbom.cdx.json
.PHONY: audit sbom

helm: ## helm and kustomize, built from their Go modules where they are missing
	@sh scripts/go_tool.sh helm && sh scripts/go_tool.sh kustomize

manifests: ## deploy/kubernetes, rendered from the chart
	@sh scripts/manifests.sh

release: packages ## wheel, sdist, image, SBOM, chart and changelog in dist/release, up to the upload (ARGS=--no-image)
	@sh scripts/release.sh $(ARGS)
.PHONY: helm manifests release

bench: $(BENCHES) ## every benchmark (each prints its machine, sizes and seed)

bench-%: packages java classes ## one benchmark: make bench-assignors
	@$(BIN)/python -m benchmarks.$* $(ARGS)

clean: ## remove what the targets made here (the download caches stay)
	@rm -rf .venv .venvs .uv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist kernel/target

##@ Set-up (the targets above call these)
packages: ## uv, and the packages of uv.lock in .venv
	@sh scripts/packages.sh

runtime: ## the same without what only tests and checks need
	@sh scripts/packages.sh --no-dev

java: ## Java 17 or newer
	@sh scripts/java.sh

classes: packages java ## what lets Spark start in half the time, kept in the cache
	@$(CLASSES)

jdk: ## Java with its compiler: the oracle's Java side is compiled here
	@sh scripts/java.sh jdk

help: ## this list
	@awk -F ':.*## ' '/^##@ /{printf "\n%s\n", substr($$0, 5)} /^[a-z%-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo test test-container test-unit test-long test-situations test-costs test-advice test-faults soak fuzz check format bench clean packages runtime java classes jdk help
