# SPDX-License-Identifier: GPL-2.0-only
"""The command `lockstep`: mirrors from their creation to their end.

It knows two things only: the lines that dm-lockstep and dmsetup exchange, and the JSON that
lockstep-meta prints. What the legs' metadata looks like, and what follows from it, is known to that
program and to the kernel alone.

One noun a module: errors, program (running others), ask (the person at the terminal), dm (mapped
devices), table (a table line), status (a status line), meta (lockstep-meta), config (what is kept
of a mirror in /etc/lockstep), device (a block device: what it carries and who uses it), show (text
for people), and the subcommands: create, assembly, legs, tune, watch, report.
"""

__version__ = "0.1"
