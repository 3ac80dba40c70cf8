#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# First program of the guest that counts instructions (instructions.py puts it into an initrd with
# the programs and modules it names). One nanosecond of this guest is one instruction.
# On the kernel's command line: lab.peers=A,B lab.depths=1,32 lab.writes=N
# Prints for each measurement: RESULT PEER DEPTH WRITES MICROSECONDS RUNNING_NANOSECONDS
export PATH=/bin
sectors=131072 # as brd's rd_size below

finish() {
	echo "$1"
	echo o >/proc/sysrq-trigger
	sleep 60
}
trap 'finish "FAILED line $LINENO: $BASH_COMMAND"' ERR

word() { # NAME: its value on the kernel's command line
	local w
	for w in $(</proc/cmdline); do
		[[ $w != "$1="* ]] || echo "${w#*=}"
	done
}

running() { # nanoseconds for which the CPU has run tasks, that is: wasn't idle
	local words
	while read -ra words; do
		[[ ${words[0]} != cpu0 ]] || echo "${words[7]}"
	done </proc/schedstat
}

assemble() { # PEER: sets node
	case $1 in
	bare) node=/dev/ram0 ;;
	lockstep*)
		node=/dev/mapper/bench
		dmsetup create bench --noudevsync --table "0 $sectors lockstep /dev/ram0 /dev/ram1 ${lockstep_options[*]}"
		dmsetup mknodes
		;;
	md)
		node=/dev/md0
		mdadm --build "$node" --level=1 --raid-devices=2 --assume-clean /dev/ram0 --write-mostly /dev/ram1
		;;
	dm-mirror)
		node=/dev/mapper/bench
		dmsetup create bench --noudevsync --table "0 $sectors mirror core 2 2048 nosync 2 /dev/ram0 0 /dev/ram1 0 1 handle_errors"
		dmsetup mknodes
		;;
	esac
}

take_down() {
	case $1 in
	bare) ;;
	md) mdadm --stop "$node" ;;
	*) dmsetup remove --noudevsync bench ;;
	esac
}

load() { # PEER DEPTH WRITES: measures them, with the load's own start and end
	local before busy after
	busy=$(running)
	before=$EPOCHREALTIME
	mirror-load stream "$node" $sectors "$2" "$3" 1 >/dev/null
	after=$EPOCHREALTIME
	echo "RESULT $1 $2 $3 $((${after/./} - ${before/./})) $(($(running) - busy))"
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mkdir -p /run/mdadm
while read -r module parameters; do
	# shellcheck disable=SC2086 # words
	insmod "/modules/$module" $parameters
done </modules/order
IFS=, read -ra peers <<<"$(word lab.peers)"
IFS=, read -ra depths <<<"$(word lab.depths)"
IFS=, read -ra lockstep_options <<<"$(word lab.lockstep)"
writes=$(word lab.writes)
for ram in /dev/ram0 /dev/ram1; do # so that the disks' pages are there
	dd if=/dev/zero of=$ram bs=1M count=$((sectors / 2048)) status=none
done
for peer in "${peers[@]}"; do
	assemble "$peer" >/dev/null 2>&1
	for depth in "${depths[@]}"; do
		load "$peer" "$depth" "$((writes / 2))" >/dev/null
		load "$peer" "$depth" "$((writes / 2))"
		load "$peer" "$depth" "$writes"
	done
	take_down "$peer" >/dev/null 2>&1
done
finish DONE
