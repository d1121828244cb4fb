"""A TCP proxy on loopback that drops answers after the server has sent them."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class Proxy:
    """Forwards connections to a server; the first ``drops`` answers are dropped, and their connections closed."""

    def __init__(self, url: str, drops: int) -> None:
        parts = urlsplit(url)
        self._to = (parts.hostname or "", parts.port or 80)
        self.drops = drops
        self.dropped: list[bytes] = []
        self.sent: list[bytearray] = []
        """What has come over each connection to the server."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._to)
            threading.Thread(target=self._up, args=(near, far), daemon=True).start()
            threading.Thread(target=self._down, args=(far, near), daemon=True).start()

    def _up(self, near: socket.socket, far: socket.socket) -> None:
        sent = bytearray()
        self.sent.append(sent)
        while data := _receive(near):
            sent += data
            far.sendall(data)
        _shut(far)

    def _down(self, far: socket.socket, near: socket.socket) -> None:
        while data := _receive(far):
            if self.drops > 0:
                # The server has committed: its answer is here.
                self.drops -= 1
                self.dropped.append(data)
                break
            near.sendall(data)
        _shut(near)
        _shut(far)

    def close(self) -> None:
        self._listener.close()


def _receive(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
