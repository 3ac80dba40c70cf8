# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# rootfs: the Debian 13 user space that runs in the guests of both labs: the
# sim lab mounts this directory read-only, the VM lab makes its disks of it.
# It holds no kernel, no host keys and no machine id.

rootfs_packages=(
	systemd-sysv dbus udev kmod
	openssh-server iproute2 iputils-ping procps less util-linux
	python3 python3-apt python3-rtslib-fb
	open-iscsi libiscsi-bin targetcli-fb sg3-utils
	dmsetup mdadm drbd-utils nvme-cli ndctl e2fsprogs xfsprogs
	fio blktrace strace libaio1t64
	postmark postgresql nfs-kernel-server bcache-tools linux-perf
)

inputs() {
	echo "${rootfs_packages[@]}"
	dpkg --print-architecture
}

build() {
	local include
	include=$(IFS=,; echo "${rootfs_packages[*]}")
	# shellcheck disable=SC2016 # $1 belongs to the hook's shell
	as_root mmdebstrap --variant=minbase --mode=root --format=directory \
		--aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--include="$include" \
		--essential-hook='mkdir -p "$1/etc/postgresql-common"' \
		--essential-hook='echo "create_main_cluster = false" >"$1/etc/postgresql-common/createcluster.conf"' \
		--customize-hook='rm -f "$1"/etc/ssh/ssh_host_*' \
		--customize-hook=': >"$1/etc/machine-id"' \
		--customize-hook='mkdir -p "$1/.lockstep" "$1/lockstep" "$1/out"' \
		--customize-hook='chroot "$1" dpkg-query -W >"$1/.lockstep/manifest"' \
		trixie "$1"
}
