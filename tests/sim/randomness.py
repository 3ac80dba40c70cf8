# SPDX-License-Identifier: GPL-2.0-only
"""Cuts a process off the host's random numbers, so that a guest's come from what it is told.

User Mode Linux seeds its random numbers with the host's getrandom(). They decide more than keys:
the kernel starts a periodic look through its neighbour table at a random moment, and that look
shifts what runs near it by a clock tick (256 ns). With getrandom() refused, and the driver of the
host's /dev/random not started (initcall_blacklist=rng_init), the guest's seed is its command line
and its simulated clock.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_PR_SET_NO_NEW_PRIVS = 38
_SYS_GETRANDOM = 318  # x86-64, the only host that this User Mode Linux has
_LOAD_NUMBER, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # of a classic BPF program
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000


def _program() -> bytes:
    steps = (
        (_LOAD_NUMBER, 0, 0, 0),
        (_JUMP_IF_EQUAL, 0, 1, _SYS_GETRANDOM),
        (_RETURN, 0, 0, _FAIL | errno.ENOSYS),
        (_RETURN, 0, 0, _ALLOW),
    )
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def refuse() -> None:
    """From now on getrandom() fails with ENOSYS in this process and its children."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = _program()
    memory = ctypes.create_string_buffer(code, len(code))
    filter_ = ctypes.create_string_buffer(
        struct.pack("@HP", len(code) // 8, ctypes.addressof(memory))
    )
    zero, one = ctypes.c_ulong(0), ctypes.c_ulong(1)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, one, zero, zero, zero) or libc.prctl(
        _PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), filter_
    ):
        err = ctypes.get_errno()
        raise OSError(err, f"can't refuse getrandom() by seccomp: {os.strerror(err)}")
