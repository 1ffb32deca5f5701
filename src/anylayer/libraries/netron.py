"""Netron, a viewer of networks in the browser. This is the only file that imports it.

Netron's page reports usage to its authors. The page that is served here does not: it is marked as a development
version, which reports nothing, its consent is set, and a content security policy refuses other addresses.
Importing this file raises ImportError where Netron is not installed.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import netron

from anylayer.errors import InputError, need

server: Any = netron.server
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self' data: blob:; worker-src 'self' blob:; font-src 'self' data:"
)


def serve(path: Path, port: int | None, *, browse: bool) -> str:
    """Serve a file on this machine only, and open it in the browser. Return the address.

    Raises InputError for a version of Netron whose page could not be kept from reporting usage.
    """
    base: Any = getattr(server, "_HTTPRequestHandler", None)
    need(
        base is not None and hasattr(server, "__version__"),
        f"Netron {netron.__version__} is not supported: pip install 'netron>=9,<10'",
        InputError,
    )

    class Quiet(base):  # type: ignore[misc]  # the package has no types
        """Netron's own handler, with headers that keep the page from other addresses."""

        def end_headers(self) -> None:
            self.send_header("Content-Security-Policy", _POLICY)
            self.send_header("Set-Cookie", "consent=1; SameSite=Strict")
            super().end_headers()

    server.__version__ = "0.0.0"
    server._HTTPRequestHandler = Quiet
    try:
        host, used = netron.serve(str(path), None, address=("localhost", port or 0), browse=browse)
    finally:
        server._HTTPRequestHandler = base
    return f"http://{host}:{used}"


def wait() -> None:
    """Wait until a signal raises an exception. (Netron's own function catches all KeyboardInterrupts.)"""
    threading.Event().wait()


def stop() -> None:
    """Stop serving."""
    netron.stop()
