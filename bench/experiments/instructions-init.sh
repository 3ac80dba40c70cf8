#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# First program of the guest that counts instructions (instructions.py puts it into an initrd with
# the programs and modules it names). One nanosecond of this guest is one instruction, if its clock
# counts them.
# On the kernel's command line: lab.peers=A,B lab.depths=1,32 lab.writes=N lab.loads=stream[,fetch]
# lab.rounds=N: all of it so many times.
# Prints for each measurement: RESULT PEER DEPTH WRITES MICROSECONDS RUNNING_NANOSECONDS, of reads
# with PEER:reads.
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

core='' # directory of a LUN's backstore
target=/sys/kernel/config/target
port=$target/loopback/naa.6001405000000001

lun() { # KIND CONTROL: a LUN at the target itself, sets node
	local disks
	core=$target/core/$1_0/bench
	mkdir -p "$core"
	echo "$2" >"$core/control"
	echo 1 >"$core/enable"
	mkdir -p "$port/tpgt_1"
	echo naa.6001405000000002 >"$port/tpgt_1/nexus"
	mkdir "$port/tpgt_1/lun/lun_0"
	ln -s "$core" "$port/tpgt_1/lun/lun_0/store"
	disks=(/dev/sd?)
	while [[ ! -b ${disks[0]} ]]; do
		sleep 0.1
		disks=(/dev/sd?)
	done
	node=${disks[0]}
}

dcd_lun() { # NVRAM NODE_OR_NONE SETTINGS
	dcd format --force --data /dev/ram0 --log /dev/ram1 --nvram "$2"
	lun dcd "data=/dev/ram0,log=/dev/ram1,nvram=$1,$3"
}

never=destage_idle_ms=3600000
at_once=destage_idle_ms=1

empty() { # a DCD has nothing to do any more
	while (($(<"$core/attrib/stat_log_live") + $(<"$core/attrib/stat_slots_used"))); do
		sleep 0.05
	done
}

settled() { # what a DCD has to do still is part of its cost, but not of a burst's
	[[ $1 == dcd* && $1 != dcd-burst ]] || return 0
	empty
}

room() { # the log has room for the next burst; what is read after it is in the log
	[[ $1/$2 == dcd-burst/stream ]] || return 0
	echo "$at_once" >"$core/control"
	empty
	echo "$never" >"$core/control"
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
	iblock) lun iblock udev_path=/dev/ram0 ;;
	fileio) lun fileio fd_dev_name=/dev/ram0,fd_dev_size=$((sectors * 512)) ;;
	dcd) dcd_lun dram:battery none "$at_once,read_cache_bytes=$((256 << 20))" ;;
	dcd-nocache) dcd_lun dram:battery none "$at_once,read_cache_bytes=0" ;;
	dcd-pmem)
		dcd_lun pmem:/dev/pmem0 /dev/pmem0 "$at_once,read_cache_bytes=$((256 << 20))"
		;;
	dcd-burst) dcd_lun dram:battery none "$never,destage_low=97,destage_high=98" ;;
	esac
}

take_down() {
	case $1 in
	bare) ;;
	md) mdadm --stop "$node" ;;
	iblock | fileio | dcd*)
		rm "$port/tpgt_1/lun/lun_0/store"
		rmdir "$port/tpgt_1/lun/lun_0"
		echo NULL >"$port/tpgt_1/nexus"
		rmdir "$port/tpgt_1" "$port" "$core"
		;;
	*) dmsetup remove --noudevsync bench ;;
	esac
}

load() { # PEER LOAD DEPTH COUNT: measures them, with the load's own start and end
	local before busy after name=$1
	[[ $2 == stream ]] || name+=:reads
	room "$1" "$2"
	busy=$(running)
	before=$EPOCHREALTIME
	mirror-load "$2" "$node" $sectors "$3" "$4" 1 >/dev/null
	settled "$1"
	after=$EPOCHREALTIME
	echo "RESULT $name $3 $4 $((${after/./} - ${before/./})) $(($(running) - busy))"
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
[[ ! -d /sys/kernel/config ]] || mount -t configfs configfs /sys/kernel/config
IFS=, read -ra loads <<<"$(word lab.loads)"
IFS=, read -ra peers <<<"$(word lab.peers)"
IFS=, read -ra depths <<<"$(word lab.depths)"
IFS=, read -ra lockstep_options <<<"$(word lab.lockstep)"
writes=$(word lab.writes)
for ram in /dev/ram0 /dev/ram1; do # so that the disks' pages are there
	dd if=/dev/zero of=$ram bs=1M count=$((sectors / 2048)) status=none
done
rounds=()
for ((round = 0; round < $(word lab.rounds); round++)); do
	rounds+=("${peers[@]}")
done
for peer in "${rounds[@]}"; do
	assemble "$peer" >/dev/null 2>&1
	for kind in "${loads[@]}"; do
		for depth in "${depths[@]}"; do
			load "$peer" "$kind" "$depth" "$((writes / 2))" >/dev/null
			load "$peer" "$kind" "$depth" "$((writes / 2))"
			load "$peer" "$kind" "$depth" "$writes"
		done
	done
	take_down "$peer" >/dev/null 2>&1
done
finish DONE
