# SPDX-License-Identifier: GPL-2.0-only
"""What scenarios of the sim lab are written with. Standard library only.

One noun a module: base (waiting, checking), wire (the link and its two ends), ram (backing
disks), dm (device mapper), lio (the mirror site's target), iscsi (the primary's session), blk
(direct I/O and comparing), mirror (dm-lockstep), media (modelled disks and NVRAM), fio, count (what
a piece of work cost), fs (file systems and their loads), pair (both sites put together). System
calls and files instead of programs wherever there is a choice: starting a program is the dearest
thing in this kernel.
"""
