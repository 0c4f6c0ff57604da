# Builds and checks Warpline. `make help` lists the targets.
#
# Rust (cargo) must be installed, and Python 3 for most targets but `make run`. `make run` and `make test` install missing Debian packages if
# run as root. Otherwise they print the command that installs them, and leave out the checks that need them (with CI=true, these fail).

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

CARGO ?= cargo
PYTHON ?= python3
SCENARIO ?= scenarios/dumbbell.toml

TARGET := $(or $(CARGO_TARGET_DIR),target)
# All checks use the same profile, so that large dependencies are compiled once.
DEBUG := $(TARGET)/debug/warpline
RELEASE := $(TARGET)/release/warpline
# For a first look: only models, built sooner, and slower.
QUICK := $(TARGET)/quick/warpline
# What makes it smaller: no tables for unwinding, since it aborts; no relocations; and equal functions once, which Rust's own linker can do.
SYSTEM := $(shell uname -s)-$(shell uname -m)
ifeq ($(SYSTEM),Linux-x86_64)
QUICK_FLAGS := -C force-unwind-tables=no
RUST_LLD := $(wildcard $(shell rustc --print sysroot 2>/dev/null)/lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld/ld.lld)
# With a name of its own, because a comma ends what `if` gives.
FOLD := -C link-arg=-Wl,--icf=all
QUICK_LINK := -C relocation-model=static $(if $(RUST_LLD),$(FOLD))
endif
VENV := .venv
# Prints which check begins.
say = @printf '\n\033[1m== %s\033[0m\n' "$(1)"
ifdef NO_COLOR
say = @printf '\n== %s\n' "$(1)"
endif

# Optimisation at the time of linking and of whole crates changes no figure, and takes long.
RELEASE_TESTS = INSTA_UPDATE=no CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0 $(CARGO) test --release --locked --package warpline-core --package warpline-net --package warpline-transport --package warpline-capacity

FUZZ_SECONDS ?= 30
# The fuzz targets are for this system only.
FUZZ_FEATURE := $(if $(filter Linux-x86_64,$(SYSTEM)),--features warpline-fuzz/libfuzzer)

.PHONY: help run test bench bench-live fuzz release docs schema python stacks clean setup-run setup-python setup-test setup-mpi setup-bench \
	format lint deny test-rust ahead rest-of-rust test-examples test-template test-release test-docs test-scenarios test-python python-package python-checks test-mpi golden miri memory model threads

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup-run ## Build Warpline, run a scenario (SCENARIO=scenarios/dumbbell.toml), print its summary and the path of its report
	RUSTFLAGS="$${RUSTFLAGS:-} $(QUICK_FLAGS)" $(CARGO) rustc --profile quick --locked --package warpline-cli --no-default-features --bin warpline -- $(QUICK_LINK)
	$(QUICK) run $(SCENARIO)

test: setup-test format test-rust python-package ## Run the checks that every change must pass
	@# Python's tests use one core, and the compiler the others.
	@scripts/both.sh 'make --no-print-directory rest-of-rust' 'make --no-print-directory python-checks'
	@printf '\nAll checks passed.\n'

bench: setup-bench ## Compare speed and memory with ns-2 and ns-3, alternating in one session
	$(CARGO) build --release --locked --package warpline-cli
	$(PYTHON) benches/peers.py --warpline $(RELEASE) $(BENCH_OPTIONS)

bench-live: ## Compare emulation with the figures of other emulators (some eight minutes on an idle machine)
	$(CARGO) build --release --locked --package warpline-cli
	$(PYTHON) benches/live.py --warpline $(RELEASE) $(BENCH_OPTIONS)

fuzz: ## Fuzz readers of untrusted bytes, and TCP, for FUZZ_SECONDS=30 each (make test only uses the committed corpora)
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(FUZZ_TARGETS)

golden: ## Check that debug and release builds give the same bytes (not part of make test: the release build takes minutes)
	$(CARGO) build --locked --package warpline-cli
	$(CARGO) build --release --locked --package warpline-cli
	@scripts/golden.sh $(DEBUG) $(RELEASE)

miri: ## The tests of core, net, transport and capacity under Miri (needs nightly Rust with Miri; says what is missing)
	@scripts/miri.sh

model: ## Check what the threads of a network tell each other, in all orders of their steps (with loom)
	RUSTFLAGS="--cfg loom" $(CARGO) test --locked --release --target-dir $(TARGET)/model --package warpline-net --lib ::model::

threads: ## The tests of a network in parts under the thread sanitiser (needs nightly Rust with its source; says what is missing)
	@scripts/threads.sh

memory: ## The tests of the crates with unsafe code under the address sanitiser
	@scripts/memory.sh

stacks: ## Build the transport stacks that are not part of the program (lwIP; bsd if libslirp is installed, sctp if libusrsctp is, netstack if Go is), as shared objects beside it
	@$(PYTHON) scripts/build_stacks.py $(TARGET)/stacks

release: ## What a release holds for this kind of machine, in dist: the program, its symbols, the wheel
	@scripts/release.sh dist

docs: ## Make the API documentation, and the book (if mdBook is installed)
	$(CARGO) doc --locked --no-deps --workspace
	@if command -v mdbook >/dev/null; then mdbook build docs; \
	else echo "The book is Markdown under docs/src; as HTML: cargo install mdbook --locked && mdbook build docs"; fi

schema: ## Regenerate the schema, the references and Python's classes, after a change of scenario structs or columns
	$(CARGO) build --locked --package warpline-cli
	$(DEBUG) schema > docs/scenario.schema.json
	$(DEBUG) schema --markdown > docs/src/reference.md
	$(DEBUG) schema --results > docs/results.json
	$(DEBUG) schema --results --markdown > docs/src/columns.md
	$(PYTHON) python/tools/generate_model.py
	$(PYTHON) python/tools/generate_summary.py

python: setup-python $(VENV)/bin/python ## Install the Python package into .venv, with an optimised build
	$(VENV)/bin/python -m pip install --quiet '.[all]'
	@echo "source $(VENV)/bin/activate, then: import warpline"

clean: ## Remove build output
	$(CARGO) clean
	rm -rf $(VENV) docs/book

# Set-up ---------------------------------------------------------------------------------------------------------------

setup-run:
	@scripts/setup.sh run

setup-python:
	@scripts/setup.sh python

setup-test:
	@scripts/setup.sh test

setup-mpi:
	@scripts/setup.sh mpi

setup-bench:
	@scripts/setup.sh bench

$(VENV)/bin/python:
	@# Half an environment would count as made.
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# Checks ---------------------------------------------------------------------------------------------------------------

format: ## Formatting
	$(call say,format)
	$(CARGO) fmt --all --check
	rustfmt --edition 2024 --check crates/transport/src/{cc,media}/*.rs crates/net/src/{qdisc,loss,jitter,radio}/*.rs crates/scenario/src/{application,endpoint,topology}/*.rs crates/study/src/evaluate/criteria/*.rs crates/cli/src/commands/study/*.rs  # lists in macros name them, which cargo fmt does not see

lint: ## Clippy without warnings, fuzz targets included
	$(call say,lint)
	$(CARGO) clippy --locked --workspace --all-targets $(FUZZ_FEATURE) -- --deny warnings
	@# As `make run` builds it, and as it is on other systems.
	$(CARGO) clippy --locked --package warpline-cli --no-default-features -- --deny warnings

deny: ## Licences, sources and known vulnerabilities of dependencies
	$(call say,deny)
	@scripts/deny.sh

test-rust: ## Unit, property, snapshot, command-line and browser tests
	$(call say,test-rust)
	@$(PYTHON) scripts/build_stacks.py $(TARGET)/stacks
	$(CARGO) test --locked --workspace --no-run
	@# Half of what follows is waiting for clocks. Meanwhile, what the checks after it compile is compiled. Not what pip installs, which must not be ended half-way.
	scripts/beside.sh 'make --keep-going ahead' $(CARGO) test --locked --workspace

ahead: lint test-docs deny # What the checks after test-rust compile
	$(RELEASE_TESTS) --no-run

test-examples: ## The Rust examples
	$(call say,test-examples)
	$(CARGO) build --locked --workspace --examples
	@for example in dumbbell evaluate_own own_hosts own_wire; do echo "-- $$example"; $(TARGET)/debug/examples/$$example; done

test-template: ## What scripts/new_part.py makes compiles and passes its tests
	$(call say,test-template)
	CARGO="$(CARGO)" $(PYTHON) scripts/new_part.py --check

test-release: ## The engine's and TCP's tests in the release build, against figures recorded with the other build
	$(call say,test-release)
	$(RELEASE_TESTS)

test-docs: ## The API documentation without warnings
	$(call say,test-docs)
	@# The features that lint has turned on, so that dependencies are not checked again.
	RUSTDOCFLAGS='--deny warnings' $(CARGO) doc --locked --no-deps --workspace --lib --bins --examples $(FUZZ_FEATURE) --document-private-items

test-scenarios: ## Every scenario loads, and the schema and references in docs are up to date
	$(call say,test-scenarios)
	@# The same packages as test-rust. With fewer, cargo turns on other features of dependencies, and compiles most of them again.
	$(CARGO) build --locked --workspace --bins --examples
	$(DEBUG) check scenarios/*.toml scenarios/coming-from/*.toml scenarios/lessons/*.toml scenarios/tutorial/*.toml
	@$(DEBUG) schema | diff --unified docs/scenario.schema.json - && $(DEBUG) schema --markdown | diff --unified docs/src/reference.md - \
	&& $(DEBUG) schema --results | diff --unified docs/results.json - && $(DEBUG) schema --results --markdown | diff --unified docs/src/columns.md - \
	|| { echo "The schema in docs is out of date: make schema"; exit 1; }

rest-of-rust: lint deny test-examples test-template test-release test-docs test-scenarios # What `make test` does of Rust beside Python

test-python: python-package ## The Python package
	@# Not a prerequisite: `make -j` would begin it before the package is installed.
	@make --no-print-directory python-checks

python-package: $(VENV)/bin/python
	$(call say,python-package)
	MATURIN_PEP517_ARGS='--profile=dev --locked --features=as-in-workspace' $(VENV)/bin/python -m pip install --quiet '.[test]'

python-checks:
	$(call say,python-checks)
	@# Half of the tests wait for programs. More processes than four gain little, and crowd the tests that need the clock.
	$(VENV)/bin/python -m pytest --quiet --numprocesses=auto --maxprocesses=4 --dist=worksteal
	$(VENV)/bin/python -m mypy
	$(VENV)/bin/python -m mypy.stubtest --mypy-config-file pyproject.toml warpline._warpline

test-mpi: setup-mpi ## Runs in two and four processes by MPI, built with the feature mpi (not part of make test: it needs an MPI library)
	$(call say,test-mpi)
	$(CARGO) build --locked --package warpline-cli --features mpi
	WARPLINE_MPI=$(abspath $(DEBUG)) $(CARGO) test --locked --package warpline-study --test trust -- mpi::
