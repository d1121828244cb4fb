"""Which server certificates are trusted."""

from __future__ import annotations

import ssl
from typing import Any

from ._connection import Connection
from .errors import ConfigurationError


def ssl_context(connection: Connection) -> ssl.SSLContext:
    """The TLS settings for ``https`` and ``wss``: a pinned certificate, an authority, or those of this machine."""
    try:
        if connection.pin is not None:
            return _only(connection.pin)
        context = ssl.create_default_context()
        if connection.ca is not None:
            context.load_verify_locations(connection.ca)
        return context
    except (OSError, ValueError) as error:
        path = connection.pin or connection.ca
        raise ConfigurationError(f"failed to use the certificates in {path}", why=str(error)) from None


def _only(path: str) -> ssl.SSLContext:
    """Trusts one certificate, compared byte by byte, regardless of its name. The handshake proves its key."""
    with open(path, encoding="ascii") as file:  # noqa: PTH123
        text = file.read()
    end = "-----END CERTIFICATE-----"
    if end not in text:
        raise ValueError("it has no certificate in it")
    expected = ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN") : text.index(end) + len(end)])

    def check(presented: bytes | None) -> None:
        if presented != expected:
            raise ssl.SSLCertVerificationError("the certificate of the server is not the expected one")

    class PinnedSocket(ssl.SSLSocket):
        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            check(self.getpeercert(binary_form=True))

    class PinnedObject(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            check(self.getpeercert(binary_form=True))

    context: Any = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.sslsocket_class, context.sslobject_class = PinnedSocket, PinnedObject
    return context  # type: ignore[no-any-return]
