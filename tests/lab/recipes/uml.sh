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
