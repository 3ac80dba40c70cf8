# SPDX-License-Identifier: GPL-2.0-only
# The command as one file: what the labs' guests run, and what can be copied to a host.
BINS += build/bin/lockstep
UNIT_TESTS += dm-target/lockstep/test

build/bin/lockstep: $(wildcard dm-target/lockstep/lockstep/*.py)
	@rm -rf build/lockstep-app && mkdir -p build/lockstep-app/lockstep $(@D)
	@cp $^ build/lockstep-app/lockstep && cp dm-target/lockstep/lockstep/__main__.py build/lockstep-app
	@# Bytecode for the guests' Python: without it each start of the command compiles all of it.
	@tests/lab/enter "$$($(CACHE) path rootfs)" --rw "$(CURDIR)/build/lockstep-app" -- \
		python3 -m compileall -q -b --invalidation-mode unchecked-hash "$(CURDIR)/build/lockstep-app"
	python3 -m zipapp --python /usr/bin/python3 --output $@ build/lockstep-app && chmod 755 $@
