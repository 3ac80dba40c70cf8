# SPDX-License-Identifier: GPL-2.0-only
"""A TCP relay inside the mirror site's namespace: what reaches a port there goes on elsewhere.

For software whose both ends have to be in the root namespace (DRBD opens its sockets there, always)
and still have to talk over the wire: the wire's TCP ends at the mirror site's own stack, as ever,
and its bytes go on over a second wire that isn't shaped. In simulated time the relay takes none.
"""

from __future__ import annotations

import contextlib
import socket
import threading

from locklab import base, wire

_PIECE = 1 << 16


class Relay:
    """Accepts at ADDRESS:PORT in the namespace, connects each to the other one; until close()."""

    def __init__(self, at: tuple[str, int], to: tuple[str, int]) -> None:
        self._to = to
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        with base.inside(wire.NETNS):
            self._listener = socket.create_server(at)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Resets what is open: as if the mirror site's host were gone."""
        with self._lock:
            for one in (self._listener, *self._open):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        with base.inside(wire.NETNS):
            while True:
                try:
                    near = self._listener.accept()[0]
                except OSError:  # closed
                    return
                try:
                    far = socket.create_connection(self._to)
                except OSError:  # nobody listens there yet: they try again
                    near.close()
                    continue
                self._join(near, far)

    def _join(self, near: socket.socket, far: socket.socket) -> None:
        with self._lock:
            self._open += [near, far]
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Until either end is gone; then the other one is, too."""
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            sink.sendall(piece)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
