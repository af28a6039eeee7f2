# Every target installs the packages that it needs. CI runs the same targets.

PYTHON ?= python3
comma := ,
VENV := .venv
BIN := $(VENV)/bin
# These files record when packages were installed for tests and tools, for the demo only, for packaging checks, and for
# the checks that need Node.js.
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready
SHIP_READY := $(VENV)/.ship-ready
# Tests sometimes wait, so one process more than there are processors keeps all of them busy.
WORKERS = $(shell $(BIN)/python -c 'import os; print(max(3, min(8, os.cpu_count() + 1)))')
PROJECTS := pyproject.toml constraints.txt $(wildcard packages/*/pyproject.toml)
NODE := .ci/node
NODE_READY := $(NODE)/node_modules/.ready

# Every connector has its own environment, because its framework needs other package versions than Counterfoil does.
CONNECTORS := dlt airbyte
CONNECTORS_READY := $(CONNECTORS:%=connectors/%/.venv/.ready)
# dbt is only needed to test the package in connectors/dbt.
DBT := connectors/tests/dbt/.venv

# What installs the packages from the clone. A new environment has the pip and setuptools that come with Python, which may
# be years old. The three packages are built by one hatchling, because an environment for each build takes 5 s.
TOOLS := pip setuptools hatchling editables
EDITABLE := --editable 'packages/client[pull]' --editable packages/importer --editable packages/server
EVERYTHING := --editable 'packages/client[pull,mcp]' --editable 'packages/importer[mysql,postgresql]' \
	--editable 'packages/server[cluster]'

# Keep compiled code even if the shell turns it off: the tests start the command hundreds of times.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-programs test-attacks test-browser test-long check docs translations format clean ship-tools node-tools connectors test-connectors test-dbt connect-dlt wheel bench bench-quick bench-growth

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Counterfoil requires Python 3.11 or newer. Set PYTHON=... to another interpreter."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) ..." >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --upgrade $(TOOLS) >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-build-isolation $(1) >&2
	@touch $@
endef

$(READY): $(PROJECTS)
	$(call install,$(EVERYTHING) --group dev)
	@touch $(DEMO_READY)

$(DEMO_READY): $(PROJECTS)
	$(call install,$(EDITABLE))

# This is a separate step, because it installs 200 MB that only packaging needs.
$(SHIP_READY): $(READY)
	$(call install,--group ship)

# With --ignore-scripts, packages cannot run code while they are installed.
$(NODE_READY): $(NODE)/package.json $(NODE)/package-lock.json
	@command -v npm >/dev/null || { echo "npm is not installed. Install Node.js 20 or newer, then run this again."; exit 1; }
	@echo "Installing into $(NODE)/node_modules ..." >&2
	@npm ci --prefix $(NODE) --ignore-scripts --no-audit --no-fund --loglevel error >&2
	@touch $@

connectors/%/.venv/.ready: connectors/%/requirements.txt packages/client/pyproject.toml
	@test -x connectors/$*/.venv/bin/python || $(PYTHON) -m venv connectors/$*/.venv
	@echo "Installing into connectors/$*/.venv ..." >&2
	@connectors/$*/.venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip >&2 || echo "pip was not upgraded." >&2
	@connectors/$*/.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement $< >&2
	@test $* = airbyte || connectors/$*/.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable packages/client >&2
	@test ! -e connectors/$*/pyproject.toml || connectors/$*/.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable connectors/$* >&2
	@touch $@

demo: $(DEMO_READY) ## serve an invented restaurant group (ARGS="--port 9000 --json")
	@$(BIN)/counterfoil demo $(ARGS)

test: $(READY) ## run the test suite
	@echo "Not run, because they take minutes: PostgreSQL 16, replicas and failover, most endpoint and loading tests over PostgreSQL, copies in Parquet and PostgreSQL, long model and kill runs (make test-long); Citus, unless COUNTERFOIL_TEST_CITUS names a coordinator."
	@echo "Not run, because they run whole programs and other tools: serve, load --watch, the demo, stopping, broken files, the programs in the docs, repairs and answers of copies in Parquet and PostgreSQL, samples in JavaScript and PHP, TypeScript, Schemathesis, Prometheus, the wheel (make test-programs)."
	@echo "Not run, because each connector has its own environment: tests of the connectors (make test-connectors), and the dbt package (make test-dbt)."
	@echo "Not run, because they take a minute: tests of the pages in Chromium (make test-browser), and the attack campaign (make test-attacks)."
	@# Otherwise, every test process of a new clone compiles all modules.
	@$(BIN)/python -m compileall -q -j 0 packages
	$(BIN)/python -m pytest --workers $(WORKERS) -m 'not long and not programs and not browser and not attacks' $(ARGS)

test-programs: $(READY) ## run the tests that run whole programs or other tools
	@$(BIN)/python -c 'import kubernetes_validate' 2>/dev/null || echo "Left out, because their tools are not installed: checks of the wheel, the container files and the Kubernetes manifests (make ship-tools)."
	@test -e $(NODE_READY) || echo "Left out, because their tools are not installed: checks of the TypeScript types (make node-tools, which needs Node.js)."
	$(BIN)/python -m pytest --workers $(WORKERS) -m 'programs and not long' $(ARGS)

test-attacks: $(READY) ## attack a service for about a minute: the short form of the campaign in hostile/
	$(BIN)/python -m pytest -m 'attacks and not long' hostile $(ARGS)

test-browser: $(READY) ## open the HTML pages in Chromium, if it is installed
	$(BIN)/python -m pytest -m browser tests/web tests/console $(ARGS)

test-long: $(READY) ## run the tests that take minutes
	COUNTERFOIL_TEST_EXPLORE=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m long -o testpaths='tests hostile' $(ARGS)

connectors: $(DEMO_READY) $(CONNECTORS_READY) ## install `counterfoil pull`, and the connectors for dlt and Airbyte

test-connectors: $(READY) $(CONNECTORS_READY) ## run every connector against a service, with faults
	PYTHONPATH=. $(BIN)/python -m pytest -n 3 --dist loadfile --ignore connectors/tests/dbt connectors/tests $(ARGS)

connectors/tests/%/.venv/.ready: connectors/tests/%/requirements.txt
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@echo "Installing into $(@D) ..." >&2
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement $< >&2
	@touch $@

test-dbt: $(READY) $(DBT)/.ready ## run the dbt package on a copy that changes
	PYTHONPATH=. $(BIN)/python -m pytest connectors/tests/dbt $(ARGS)

connect-dlt: $(DEMO_READY) connectors/dlt/.venv/.ready ## copy the demo into DuckDB with dlt, and compare
	@$(BIN)/python connectors/copy_demo.py

ship-tools: $(SHIP_READY) ## install the tools that check the wheel and deploy/

node-tools: $(NODE_READY) ## install the Node.js tools that check the OpenAPI document and the TypeScript example

wheel: $(SHIP_READY) ## build the wheels and source archives of the three packages reproducibly into dist/
	@for package in client importer server; do \
		HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
			$(BIN)/python -m build --no-isolation --outdir dist packages/$$package || exit 1; \
	done

check: $(READY) ## check formatting, lint, types, import contracts and known vulnerabilities
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@PYTHONPATH=tests $(BIN)/python -m upkeep.translations --check
	@PYTHONPATH=tests $(BIN)/python -m upkeep.audit

docs: $(READY) ## write the documents that are generated from the code
	PYTHONPATH=tests $(BIN)/python -m upkeep.generated

translations: $(READY) ## extract the texts of the console, and update and compile their translations
	PYTHONPATH=tests $(BIN)/python -m upkeep.translations

format: $(READY) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## compare with alternatives in half an hour (ARGS="--folder DIR" keeps the data)
	@bash bench/setup
	PYTHONPATH=tests $(BIN)/python -m bench full $(ARGS)

bench-quick: $(READY) ## compare with alternatives in four minutes
	@bash bench/setup
	PYTHONPATH=tests $(BIN)/python -m bench quick $(ARGS)

bench-growth: $(READY) ## measure 10^4 to 10^7 bills in half an hour; needs 28 GB of disk
	@bash bench/setup
	PYTHONPATH=tests $(BIN)/python -m bench growth $(ARGS)

clean: ## remove all files that the targets created
	rm -rf $(VENV) dist bench/.venv $(CONNECTORS:%=connectors/%/.venv) $(DBT) bench/peers/fastify/node_modules bench/peers/bun/node_modules bench/peers/go/server $(NODE)/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis
