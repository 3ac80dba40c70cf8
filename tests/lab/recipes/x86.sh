# shellcheck shell=bash disable=SC2154 # here, flavour: set by ../cache
# SPDX-License-Identifier: GPL-2.0-only
#
# x86-kcsan: the kernel of the sim lab that QEMU runs, for what User Mode Linux hasn't got.
#   bzImage   the kernel
#   build/    the tree to build modules against: make -C build M=DIR modules
#   release   its release
#   config    its configuration

# shellcheck source=/dev/null
source "$here/recipes/uml.sh" # check_config, in_tools

# What of the base is of User Mode Linux only, or has another name here.
fragments() {
	grep -vE '^(# )?CONFIG_(STATIC_LINK|HOSTFS|HZ|INPUT|SERIO)[= ]' "$here/uml/base.config" ||
		return
	cat "$here/x86/$flavour.config"
}

inputs() {
	local tools
	tools=$(entry tools)
	cat "$tools/.lockstep/source-version" "$here/recipes/uml.sh"
	fragments
	grep -E '^(gcc-[0-9]*|binutils|libelf-dev) ' "$tools/.lockstep/manifest"
}

build() {
	local dest=$1 tools source
	tools=$(entry tools)
	source=$tools$(cat "$tools/.lockstep/source")
	mkdir "$dest/build"
	echo "unpacking $source"
	tar -C "$dest/build" --strip-components=1 -xf "$source"
	cd "$dest/build" || return

	in_tools make -s -C "$dest/build" ARCH=x86_64 alldefconfig
	fragments >"$dest/wanted"
	in_tools env ARCH=x86_64 scripts/kconfig/merge_config.sh -m .config ../wanted >/dev/null
	in_tools make -s -C "$dest/build" ARCH=x86_64 olddefconfig
	check_config "$dest/wanted" .config
	rm "$dest/wanted"

	in_tools make -C "$dest/build" ARCH=x86_64 -j"$(nproc)" bzImage modules
	cp arch/x86/boot/bzImage "$dest/bzImage"
	cp .config "$dest/config"
	cp include/config/kernel.release "$dest/release"

	# Keep what building modules takes: objtool too.
	rm -f vmlinux vmlinux.* .vmlinux* .tmp_vmlinux*
	find . \( -path ./scripts -o -path ./include -o -path ./tools \) -prune -o -type f \
		\( -name '*.[oaScd]' -o -name '*.cmd' -o -name '*.dts*' \) -print0 | xargs -0 rm -f
	rm -rf drivers/gpu sound Documentation
}
