# shellcheck shell=bash disable=SC2154 # here, final: set by ../cache
# SPDX-License-Identifier: GPL-2.0-only
#
# venv: the Python environment of requirements-dev.txt. The paths in its scripts
# are set to those of the finished entry.

inputs() {
	cat "$here/../../requirements-dev.txt"
	python3 -c 'import sys; print(sys.version, sys.base_prefix)'
}

build() {
	local dest=$1
	python3 -m venv "$dest"
	"$dest/bin/pip" install --disable-pip-version-check --no-input \
		-r "$here/../../requirements-dev.txt"
	"$dest/bin/pip" freeze --all >"$dest/versions"
	grep -rlIF "$dest" "$dest/bin" "$dest/pyvenv.cfg" | xargs sed -i "s|$dest|$final|g"
}
