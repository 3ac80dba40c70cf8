# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# tools: a Debian 13 chroot with compilers, checkers, QEMU, and what the
# kernels need: the headers of 6.12 (Debian 13) and of the newest kernel in
# backports, that kernel's source, and the stock 6.12 cloud kernel for the VMs.
#
# Besides the chroot itself:
#   .lockstep/manifest   every package with its version
#   .lockstep/kernels    the releases whose headers are here, one a line
#   .lockstep/source     the newest kernel source's tarball, a path in the chroot
#   opt/vm-kernel/       linux-image 6.12 cloud, unpacked (boot/, usr/lib/modules/)
#   opt/checkpatch/      checkpatch.pl and its data, of the newest kernel source

tools_packages=(
	bc binutils bison bzip2 ca-certificates cpio file flex gcc gcc-14 kmod libc6-dev
	libelf-dev libssl-dev make ndctl patch perl python3 rsync
	shellcheck sparse xz-utils
	qemu-system-x86 qemu-utils seabios
)

inputs() {
	echo "${tools_packages[@]}"
	dpkg --print-architecture
}

# Runs in the chroot, with the network.
tools_kernels() {
	set -euo pipefail
	export DEBIAN_FRONTEND=noninteractive
	local new=trixie-backports suite version headers image arch src release
	mkdir -p /.lockstep /opt/vm-kernel /opt/checkpatch /opt/debs
	chown _apt /opt/debs
	cd /opt/debs

	# The mirror of the chroot serves backports too.
	awk '$1 == "deb" && $3 == "trixie" && !n++ { $3 = "trixie-backports"; print }' \
		/etc/apt/sources.list >/etc/apt/sources.list.d/backports.list
	grep -q . /etc/apt/sources.list.d/backports.list
	apt-get -q update

	# version SUITE PACKAGE: the version that apt would install.
	version() {
		apt-cache -t "$1" policy "$2" | awk '/Candidate:/ { print $2 }'
	}
	# depends PACKAGE=VERSION PATTERN: the dependency that matches.
	depends() {
		apt-cache show "$1" | awk '/^Depends:/ && !n++' | grep -oE "$2"
	}
	# Unpack only: the flavours' headers depend on the kernel image. Keeps
	# /lib a link, which dpkg-deb -x does not.
	unpack() {
		dpkg-deb --fsys-tarfile "$1" | tar -C "$2" --keep-directory-symlink -xf -
	}
	: >/.lockstep/kernels
	for suite in trixie "$new"; do
		arch=cloud-amd64
		version=$(version "$suite" "linux-headers-$arch")
		headers=$(depends "linux-headers-$arch=$version" "linux-headers-[0-9][^ ,]*")
		release=${headers#linux-headers-}
		echo "== headers $release from $suite"
		apt-get -q -y -t "$suite" --no-install-recommends install \
			"linux-headers-${release%"-$arch"}-common" "linux-kbuild-${release%"-$arch"}"
		apt-get -q -t "$suite" download "$headers"
		unpack "$headers"_*.deb /
		echo "$release" >>/.lockstep/kernels
	done

	image=$(depends "linux-image-cloud-amd64=$(version trixie linux-image-cloud-amd64)" \
		"linux-image-[0-9][^ ,]*")
	echo "== VM kernel $image"
	apt-get -q -t trixie download "$image"
	unpack "$image"_*.deb /opt/vm-kernel

	# The source of the same version as the headers that backports' users get:
	# the source package is often ahead of the signed kernels.
	src=$(depends "linux-source=$version" "linux-source-[0-9.]*")
	echo "== $src $version"
	apt-get -q download "$src=$version"
	unpack "$src"_*.deb /
	echo "$version" >/.lockstep/source-version
	echo "/usr/src/$src.tar.xz" >/.lockstep/source
	tar -C /opt/checkpatch --strip-components=2 -xf "/usr/src/$src.tar.xz" \
		"$src/scripts/checkpatch.pl" "$src/scripts/spelling.txt" "$src/scripts/const_structs.checkpatch"
	dpkg-query -W -f '${Package} ${Version}\n' >/.lockstep/manifest
	cd /
	rm -rf /opt/debs
	apt-get clean
}

build() {
	local include
	include=$(IFS=,; echo "${tools_packages[*]}")
	as_root mmdebstrap --variant=minbase --mode=root --format=directory \
		--aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--include="$include" \
		--customize-hook="chroot \"\$1\" bash -c '$(declare -f tools_kernels | sed "s/'/'\\\\''/g"); tools_kernels'" \
		trixie "$1"
}
