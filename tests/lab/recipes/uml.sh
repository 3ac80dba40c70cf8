# shellcheck shell=bash disable=SC2154 # here, flavour: set by ../cache
# SPDX-License-Identifier: GPL-2.0-only
#
# uml-plain, uml-checked, uml-smp: the kernels of the sim lab.
#   linux     the kernel, statically linked: runs on any host
#   build/    the tree to build modules against: make -C build ARCH=um M=DIR modules
#   release   its release
#   config    its configuration
#
# Built in the source tree itself and not with O=: the tree then holds no
# absolute path and may be renamed.

# The configuration's files, on top of each other.
fragments() {
	local name names
	case $flavour in
	plain) names="base simulated plain" ;;
	checked) names="base simulated sanitizers checked" ;;
	smp) names="base sanitizers smp" ;;
	*) die "no UML kernel '$flavour'" ;;
	esac
	for name in $names; do
		cat "$here/uml/$name.config" || return
	done
}

inputs() {
	local tools
	tools=$(entry tools)
	cat "$tools/.lockstep/source-version"
	fragments
	grep -E '^(gcc-[0-9]*|binutils|libc6-dev) ' "$tools/.lockstep/manifest"
}

# check_config WANTED GOT
check_config() {
	local line symbol bad=0
	while read -r line; do
		case $line in
		CONFIG_*)
			symbol=${line%%=*}
			grep -qxF "$line" "$2" && continue
			;;
		'# CONFIG_'*' is not set')
			symbol=${line#\# }
			symbol=${symbol%% *}
			grep -qE "^$symbol=" "$2" || continue
			;;
		*) continue ;;
		esac
		echo "wanted: $line; the configuration has: $(grep -E "^(# )?${symbol}[ =]" "$2" || echo nothing)"
		bad=1
	done <"$1"
	return "$bad"
}

# KASAN saves the stack at each allocation. UML goes through every word of it and asks what function
# that lies in, although only return addresses of the chain of frames are saved; asking takes a lock
# that lockdep looks at. So ask for those only: 7/10 of what a checked kernel did was this.
save_stacks_by_frames() {
	local file=arch/um/kernel/stacktrace.c

	sed -i -e 's/^void dump_trace(.*/static void save_addr(void *data, unsigned long address, int reliable);\n\n&/' \
		-e 's/if (__kernel_text_address(addr)) {$/if ((ops->address != save_addr || (unsigned long)sp == bp + sizeof(long)) \&\& __kernel_text_address(addr)) {/' \
		"$file"
	[[ $(grep -c 'save_addr' "$file") == 4 ]] || die "$file isn't what it was"
}

in_tools() {
	"$here/enter" "$tools" --rw "$dest" -- "$@"
}

build() {
	local dest=$1 tools source
	tools=$(entry tools)
	source=$tools$(cat "$tools/.lockstep/source")
	mkdir "$dest/build"
	echo "unpacking $source"
	tar -C "$dest/build" --strip-components=1 -xf "$source"
	cd "$dest/build" || return

	# UML fixes HZ at 100; give the symbol a prompt, so that it can be set.
	sed -i '/^config HZ$/,/^$/s/^\tint$/\tint "HZ"/' arch/um/Kconfig
	[[ $flavour == plain ]] || save_stacks_by_frames

	in_tools make -s -C "$dest/build" ARCH=um defconfig
	fragments >"$dest/wanted"
	in_tools env ARCH=um scripts/kconfig/merge_config.sh -m .config ../wanted >/dev/null
	in_tools make -s -C "$dest/build" ARCH=um olddefconfig
	check_config "$dest/wanted" .config
	rm "$dest/wanted"

	in_tools make -C "$dest/build" ARCH=um -j"$(nproc)" linux modules
	mv linux "$dest/linux"
	cp .config "$dest/config"
	cp include/config/kernel.release "$dest/release"

	# Keep what building modules takes.
	rm -f vmlinux vmlinux.* .vmlinux* .tmp_vmlinux*
	find . \( -path ./scripts -o -path ./include \) -prune -o -type f \
		\( -name '*.[oaScd]' -o -name '*.cmd' -o -name '*.dts*' \) -print0 | xargs -0 rm -f
	rm -rf drivers/gpu sound tools Documentation
}
