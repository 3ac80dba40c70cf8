# shellcheck shell=bash disable=SC2154 # here: set by ../cache
# SPDX-License-Identifier: GPL-2.0-only
#
# vm-image: what the guests of the VM lab boot from, the same for both hosts.
#   root.ext4   Debian 13 (the rootfs entry), the stock kernel's modules, the
#               lab's own files (tests/vm/guest); no key, no host name
#   vmlinuz     that kernel
#   initrd      loads virtio-blk and mounts the root disk (tests/vm/initrd-init.c)
#   release     the kernel's release

vm=$here/../vm
vm_size=3G
# What only costs boot time: nobody logs in on a console, nothing is upgraded.
vm_masked=(
	apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer
	e2scrub_reap.service fstrim.timer mdcheck_start.timer mdcheck_continue.timer
	mdmonitor-oneshot.timer nvmf-autoconnect.service nvmefc-boot-connections.service
	cxl-monitor.service ndctl-monitor.service sshd-keygen.service uuidd.socket
	getty@.service serial-getty@.service console-getty.service
	systemd-networkd.service systemd-networkd.socket systemd-pstore.service
	systemd-hwdb-update.service systemd-machine-id-commit.service systemd-binfmt.service
	systemd-tpm2-setup-early.service systemd-tpm2-setup.service ldconfig.service
	systemd-update-utmp.service systemd-update-utmp-runlevel.service
	systemd-journal-catalog-update.service systemd-update-done.service
	systemd-firstboot.service systemd-hibernate-clear.service proc-sys-fs-binfmt_misc.automount
	systemd-logind.service systemd-user-sessions.service systemd-sysusers.service
	systemd-remount-fs.service systemd-random-seed.service systemd-journal-flush.service
	systemd-udev-load-credentials.service systemd-battery-check.service
	systemd-ask-password-console.path systemd-ask-password-wall.path
	dev-hugepages.mount dev-mqueue.mount sys-fs-fuse-connections.mount
	postgresql.service nfs-server.service nfs-mountd.service nfs-idmapd.service
	nfs-blkmap.service nfsdcld.service fsidd.service rpc-statd-notify.service
	rpcbind.service rpcbind.socket nfs-client.target
	var-lib-nfs-rpc_pipefs.mount proc-fs-nfsd.mount
)
vm_masked_generators=(
	systemd-debug-generator systemd-getty-generator systemd-gpt-auto-generator
	systemd-hibernate-resume-generator systemd-rc-local-generator systemd-ssh-generator
	systemd-system-update-generator systemd-sysv-generator systemd-tpm2-generator
)

inputs() {
	local tools rootfs
	tools=$(entry tools)
	rootfs=$(entry rootfs)
	cat "$tools/.lockstep/kernels" "$rootfs/.lockstep/manifest"
	(cd "$vm" && find guest initrd-init.c -type f -print0 | sort -z | xargs -0 sha256sum)
	(cd "$vm" && find guest -type f -perm -u+x -print | sort)
	dpkg --print-architecture
}

build() {
	local dest=$1 tools rootfs tree release unit file mode
	tools=$(entry tools)
	rootfs=$(entry rootfs)
	tree=$dest/tree
	release=$(sed -n 1p "$tools/.lockstep/kernels")
	echo "$release" >"$dest/release"
	cp "$tools/opt/vm-kernel/boot/vmlinuz-$release" "$dest/vmlinuz"
	chmod 644 "$dest/vmlinuz"

	echo "copying the root file system"
	as_root cp -a "$rootfs" "$tree"
	as_root cp -a --no-preserve=ownership "$tools/opt/vm-kernel/usr/lib/modules" "$tree/usr/lib/"
	# Unpacked, they load in a fraction of the time under TCG, and so does depmod.
	find "$tree/usr/lib/modules" -name '*.ko.xz' -print0 | as_root xargs -0 -P "$(nproc)" -n 50 xz -d
	as_root chroot "$tree" depmod "$release"
	(cd "$vm/guest" && find . -type f -print) | while read -r file; do
		mode=644
		[[ ! -x $vm/guest/$file ]] || mode=755
		as_root install -D -m "$mode" "$vm/guest/$file" "$tree/$file"
	done
	as_root mkdir -p "$tree/etc/systemd/system-generators"
	for unit in "${vm_masked[@]}"; do
		as_root ln -sf /dev/null "$tree/etc/systemd/system/$unit"
	done
	for unit in "${vm_masked_generators[@]}"; do
		as_root ln -sf /dev/null "$tree/etc/systemd/system-generators/$unit"
	done
	# Debian loads DRBD at each boot where its tools are, and asks each block device whether it is
	# bcache's; here that is done when it is wanted.
	as_root ln -sf /dev/null "$tree/etc/modules-load.d/drbd.conf"
	as_root ln -sf /dev/null "$tree/etc/udev/rules.d/69-bcache.rules"
	as_root ln -sf ../lab-net.service "$tree/etc/systemd/system/multi-user.target.wants/"
	as_root ln -sf /usr/lib/systemd/system/multi-user.target "$tree/etc/systemd/system/default.target"
	printf '127.0.0.1 localhost\n10.9.0.1 primary\n10.9.0.2 mirror\n' |
		as_root tee "$tree/etc/hosts" >/dev/null
	: | as_root tee "$tree/etc/fstab" >/dev/null

	echo "making the disk"
	truncate -s "$vm_size" "$dest/root.ext4"
	as_root /usr/sbin/mke2fs -q -t ext4 -L labroot -E lazy_itable_init=1,root_owner=0:0 \
		-d "$tree" "$dest/root.ext4"
	as_root chown "$(id -u):$(id -g)" "$dest/root.ext4"

	echo "making the initrd"
	mkdir "$dest/initrd.d"
	gcc -O2 -static -Wall -Wextra -Werror -o "$dest/initrd.d/init" "$vm/initrd-init.c"
	cp "$tree/usr/lib/modules/$release/kernel/drivers/block/virtio_blk.ko" "$dest/initrd.d/"
	(cd "$dest/initrd.d" && find . | "$here/tool" cpio --quiet -o -H newc -R 0:0) >"$dest/initrd"
	as_root rm -rf --one-file-system "$tree" "$dest/initrd.d"
}
