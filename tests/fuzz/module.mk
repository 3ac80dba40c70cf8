# SPDX-License-Identifier: GPL-2.0-only
UNIT_TESTS += tests/fuzz

.PHONY: fuzz
fuzz: ## ten million inputs for each parser of on-disk data (installs clang): FUZZ_ARGS, tests/fuzz/run --help
	@tests/lab/host-deps clang libclang-rt-dev
	@tests/fuzz/run $(FUZZ_ARGS)
