# Each target does the set-up it needs. `make` alone says what there is.
SHELL := /bin/sh
.SHELLFLAGS := -eu -c
.DEFAULT_GOAL := help
.PHONY: help setup hosts demo test faults drift bench lock clean

# The pinned tools, this checkout as a collection, and Ansible's own folder inside it: two checkouts do not meet.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/.cache/collections
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export ANSIBLE_HOME := $(CURDIR)/.cache/ansible
# Conditions on facts must read ansible_facts['x'], whatever a user's settings are.
export ANSIBLE_INJECT_FACT_VARS := false
# Silences molecule's advice to move its scenarios.
export MOLECULE_GLOB := molecule/*/molecule.yml
# Ansible refuses to run in any other encoding, and a bare machine has none set.
export LC_ALL := C.UTF-8

# Where it is set, each of hundreds of starts would compile Ansible anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## .venv with the pinned tools, and the collection link
	@dev/setup.sh

# The same, and meanwhile what the test hosts need.
hosts:
	@dev/setup.sh hosts

demo: hosts ## replays the incident on real parts
	@python dev/demo.py

test: $(if $(ONLY)$(LIST),setup,hosts) ## everything CI runs; ONLY="lint units" runs some, LIST=1 names them
	@python dev/test.py $(if $(LIST),--list) --only "$(ONLY)"

faults: $(if $(LIST),setup,hosts) ## the fault matrix, an hour: build/faults.md; ONLY="kill cut-5" runs some rows, LIST=1 names them, JOBS=1, KEEP=1
	@PYTHONPATH=.cache/collections python -m ansible_collections.pristine.vllm.tests.faults.run $(if $(LIST),--list) $(if $(CHAIN),--chain) --only "$(ONLY)" --jobs $(or $(JOBS),2) $(if $(KEEP),--keep)

# No tools: any Python that a host may have, and whoever may read the environment.
drift: ## scans an environment on this machine and reports: ENV=/path, WHEELS="/file/or/folder ..."
	@dev/link.sh
	@python=$$(dev/python.sh 3.13 3.12 3.11 3.10 3.9) || { echo "No Python 3.9 to 3.13 is on this machine. Install one, or name it: PYTHON=/path make drift" >&2; exit 2; }; \
	PYTHONPATH=.cache/collections "$$python" -B dev/drift.py "$(ENV)" $(WHEELS)

bench: setup ## measures against what a user would pick instead, and writes build/bench.json; ONLY="name" runs one
	@PYTHONPATH=.cache/collections python -m ansible_collections.pristine.vllm.tests.bench.run --only "$(ONLY)"

lock: setup ## writes requirements-*.txt anew from requirements-*.in
	@dev/lock.sh

clean: ## removes what the above made, and nothing else
	@dev/clean.sh
