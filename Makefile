# SPDX-License-Identifier: GPL-2.0-only
#
# What is expensive and not of this tree (kernels, chroots, the Python tools)
# is kept in a cache outside it (tests/lab/cache); what is of this tree goes to
# build/. Directories add programs and tests by a fragment, module.mk:
#   BINS        programs of the host and the guests, with the rules to build them
#   UNIT_TESTS  paths for pytest: no root, no guest
#   LAB_DEPS    targets that `make lab` builds besides the cache entries

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
SHELL := /bin/bash

BINS :=
UNIT_TESTS := $(wildcard tests/unit tests/lab/test_*.py)
LAB_DEPS :=
include $(wildcard */module.mk */*/module.mk)

CACHE := tests/lab/cache
DEBIAN_KERNELS := 6.1 6.12 backports
UML_KERNELS := uml-plain uml-checked
# What takes ten minutes to build, each, for test-long.
LONG_KERNELS := uml-smp x86-kcsan
# The tools of requirements-dev.txt, built on first use.
VENV = $$($(CACHE) path venv)/bin
# PYTEST_ARGS="-k NAME" and the like reach pytest. Of each part test-long has the tests that are
# marked `long`, test-controls those marked `control`, test the others.
MARKED = $(or $(if $(findstring -long,$@),long),$(if $(findstring -controls,$@),control and not long)\
	,not long and not control)
PYTEST = $(VENV)/python3 -m pytest -m "$(MARKED)" $(PYTEST_ARGS)
# Tests at a time: a guest of the sim lab takes one CPU and up to 1 GiB of memory.
JOBS ?= $(shell n=$$(nproc); echo $$((n < 8 ? n : 8)))
PARALLEL = PYTEST_ADDOPTS="-n $(JOBS) --dist worksteal" $(PYTEST)

.PHONY: help
help: ## this list
	@echo "Lockstep: synchronous remote mirroring for Linux block devices."
	@echo
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | \
		awk -F ':.*## ' '{ printf "  make %-14s %s\n", $$1, $$2 }'

.PHONY: demo
demo: modules-vm bins lab-vm ## two virtual hosts, a trace over LAN and WAN, a power cut, a table and a picture
	@bench/demo

.PHONY: test
# The virtual hosts often wait, and use one CPU then or none.
test: ## everything: lint, modules, unit, sim and vm tests, and their sum
	@MAKE="$(MAKE)" python3 tests/lab/run-tests lint modules test-unit test-sim+test-vm

.PHONY: test-long
test-long: ## hours: thousands of seeds, the whole search, millions of inputs, and their sum
	@MAKE="$(MAKE)" python3 tests/lab/run-tests test-controls test-unit-long test-sim-long test-vm-long fuzz

.PHONY: test-unit test-unit-long
test-unit: ## userspace tests: no root, no kernel
test-unit test-unit-long: host-deps bins
	@mkdir -p build/test
	$(PARALLEL) --junit-xml=build/test/$@.xml $(UNIT_TESTS)

.PHONY: test-sim test-controls test-sim-long
test-sim: ## both sites and the wire in one UML kernel with simulated time
test-controls: ## a quarter of an hour: each mend is switched off, and what proves it has to fail
test-sim-long: $(LONG_KERNELS:%=modules-%)
test-sim test-controls test-sim-long: modules-uml bins lab-sim peers
	@mkdir -p build/test
	$(PARALLEL) --junit-xml=build/test/$@.xml tests/sim

.PHONY: test-vm test-vm-long
test-vm: ## two QEMU hosts with Debian 13
test-vm test-vm-long: modules-vm bins lab-vm
	@mkdir -p build/test
	$(PYTEST) --junit-xml=build/test/$@.xml tests/vm

.PHONY: bench
bench: modules-uml-plain bins lab-sim peers ## the measurements, and build/report/index.html
	@bench/run

.PHONY: lab
lab: lab-sim lab-vm ## build both labs' kernels and images

.PHONY: lab-sim lab-vm
lab-sim: host-deps
	@for e in rootfs $(UML_KERNELS) venv; do $(CACHE) path $$e >/dev/null || exit 1; done
lab-vm: host-deps $(LAB_DEPS)
	@for e in tools rootfs vm-image venv; do $(CACHE) path $$e >/dev/null || exit 1; done

.PHONY: peers
peers: lab-sim ## the bench's peer that isn't in Linux, for the sim lab: dm-writeboost
	@bench/peers/dm-writeboost || echo "peers: what needs it will be a gap"

.PHONY: modules modules-uml modules-vm
modules: $(DEBIAN_KERNELS:%=modules-%) ## kernel modules for Debian's kernels: 6.1, 6.12 and the newest in backports
modules-uml: $(UML_KERNELS:%=modules-%) ## kernel modules for the sim lab, plain and checked
modules-vm: modules-6.12

KERNEL_TARGETS := $(addprefix modules-,$(DEBIAN_KERNELS) $(UML_KERNELS) $(LONG_KERNELS))
.PHONY: $(KERNEL_TARGETS)
$(KERNEL_TARGETS): modules-%: host-deps
	@tests/lab/modules $*

.PHONY: bins
bins: host-deps $(BINS) ## user programs

.PHONY: host-deps
host-deps:
	@tests/lab/host-deps

LINTS := spdx length versions checkpatch sparse ruff mypy shellcheck yamllint ansible-lint
.PHONY: lint $(LINTS:%=lint-%)
lint: host-deps ## every static check
	@$(MAKE) --no-print-directory -j$(JOBS) -Otarget -k $(LINTS:%=lint-%)
$(LINTS:%=lint-%): lint-%: host-deps
	@tests/lab/lint $*

.PHONY: clean
clean: ## remove build/, after the virtual hosts of this tree are down
	@for lab in build/vm*/lab.json; do \
		if [[ -e $$lab ]]; then tests/vm/lab --state "$${lab%/*}" down || exit 1; fi; \
	done
	rm -rf build

.PHONY: distclean
distclean: clean ## remove build/ and the cache
	$(CACHE) clean
