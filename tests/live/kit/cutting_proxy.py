"""A proxy of TCP that cuts or silences all of its connections when told to."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class CuttingProxy:
    """Forwards connections to a port of loopback, in threads.

    Attributes
    ----------
    port : int
        Where it listens.
    """

    def __init__(self, target: int) -> None:
        self._target, self._lock = target, threading.Lock()
        self._open: list[socket.socket] = []
        self._passes = threading.Event()  # of the connections since the last silence
        self._passes.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections, in the middle of what they carry."""
        with self._lock:
            closing, self._open = self._open, []
        for one in closing:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def silence(self) -> None:
        """Let nothing more through any connection that is open, as if the network had lost it; later ones
        work."""
        self._passes.clear()
        self._passes = threading.Event()
        self._passes.set()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    near.close()
                    continue
                with self._lock:
                    self._open += [near, far]
                threading.Thread(target=self._forward, args=(near, far, self._passes), daemon=True).start()

    @staticmethod
    def _forward(near: socket.socket, far: socket.socket, passes: threading.Event) -> None:
        """Forward both ways until one side has ended."""
        with near, far, suppress(OSError):
            back = threading.Thread(target=_copy, args=(far, near, passes), daemon=True)
            back.start()
            _copy(near, far, passes)
            back.join()


def _copy(source: socket.socket, target: socket.socket, passes: threading.Event) -> None:
    """Copy while it is let through, until a side has ended, and end both."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            passes.wait()
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
