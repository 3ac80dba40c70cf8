# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# A script for bash: its first argument comes back, its second is the exit code.
echo "bash $1 seed $LAB_SEED"
exit "$2"
