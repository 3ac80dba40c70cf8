# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# kbuild-6.1: a Debian 12 chroot that can build modules for Debian 12's kernel.
#   .lockstep/manifest   every package with its version
#   .lockstep/kernels    the release whose headers are here

kbuild_packages=(gcc gcc-12 kmod libc6-dev make)

inputs() {
	echo "${kbuild_packages[@]}"
	dpkg --print-architecture
}

# Runs in the chroot, with the network.
kbuild_headers() {
	set -euo pipefail
	export DEBIAN_FRONTEND=noninteractive
	local headers release
	mkdir -p /.lockstep /opt/debs
	chown _apt /opt/debs
	cd /opt/debs
	headers=$(apt-cache show --no-all-versions linux-headers-cloud-amd64 | grep -E '^Depends:' |
		grep -oE 'linux-headers-[0-9][^ ,]*' | head -n 1)
	release=${headers#linux-headers-}
	apt-get -q -y --no-install-recommends install \
		"linux-headers-${release%-cloud-amd64}-common" linux-kbuild-6.1
	# The flavour's package depends on the kernel image: only unpack it.
	# (dpkg-deb -x would replace the link /lib by a directory.)
	apt-get -q download "$headers"
	dpkg-deb --fsys-tarfile "$headers"_*.deb | tar -C / --keep-directory-symlink -xf -
	echo "$release" >/.lockstep/kernels
	dpkg-query -W -f '${Package} ${Version}\n' >/.lockstep/manifest
	cd /
	rm -rf /opt/debs
	apt-get clean
}

build() {
	local include
	include=$(IFS=,; echo "${kbuild_packages[*]}")
	as_root mmdebstrap --variant=minbase --mode=root --format=directory \
		--aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--include="$include" \
		--customize-hook="chroot \"\$1\" bash -c '$(declare -f kbuild_headers | sed "s/'/'\\\\''/g"); kbuild_headers'" \
		bookworm "$1"
}
