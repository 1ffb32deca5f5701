"""A cache of libraries that are built from generated C++, in the user's cache folder.

The folder is "cpp": see libraries/machine.py. Where there is none, each library is built in a temporary folder and
not kept. A file is called KEY-HASH.so: KEY is the hash of all that the library depends on, HASH that of its own
bytes. A file is loaded only if it belongs to the user, others cannot write to it, and its bytes have the hash of
its name.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from anylayer.kernels.compiler import Build
from anylayer.libraries.machine import cache_folder, delete_oldest, own_content, processor

_MAX_KEPT = 200
"""The number of libraries that the folder keeps; those that were used longest ago are deleted."""

_loaded: dict[str, ctypes.CDLL] = {}
_lock = threading.Lock()


def library(source: str, compiler: Sequence[str], flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Return the library of a C++ source text for this processor. Build it if the cache folder does not have it.

    compiler: the command of the compiler, as a list of arguments. flags: further arguments. Raises FileError, with
    the compiler's message, if the source does not compile.
    """
    key = _key(source, compiler, flags)
    with _lock:
        if key not in _loaded:
            _loaded[key] = _load_cached(key) or _build(key, source, compiler, flags)
        return _loaded[key]


def _key(source: str, compiler: Sequence[str], flags: Sequence[str]) -> str:
    parts = [source, *compiler, *flags, _version(tuple(compiler)), processor()]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache
def _version(compiler: tuple[str, ...]) -> str:
    """Return a compiler's description of its version."""
    process = subprocess.run([*compiler, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return process.stdout


def _load_cached(key: str) -> ctypes.CDLL | None:
    """Return a library of the cache folder, or None. A file with another hash than in its name is deleted."""
    place = cache_folder("cpp")
    for path in sorted(place.glob(f"{key}-*.so")) if place is not None else ():
        try:
            content = own_content(path)
            if content is not None and path.name == _file_name(key, content):
                library = ctypes.CDLL(str(path))
                os.utime(path)
                return library
            path.unlink()
        except OSError:
            continue
    return None


def _file_name(key: str, content: bytes) -> str:
    return f"{key}-{hashlib.sha256(content).hexdigest()}.so"


def _build(key: str, source: str, compiler: Sequence[str], flags: Sequence[str]) -> ctypes.CDLL:
    """Build a library in a temporary folder, move it to the cache folder if there is one, and load it."""
    place = cache_folder("cpp")
    with TemporaryDirectory(prefix=".build-", dir=place) as temporary:
        text, library = Path(temporary) / "source.cpp", Path(temporary) / "library.so"
        text.write_text(source, "utf-8")
        Build([text], library, compiler, tuned=True, flags=flags).run()
        library.chmod(0o700)
        if place is None:
            return ctypes.CDLL(str(library))
        cached = place / _file_name(key, library.read_bytes())
        library.replace(cached)
    delete_oldest("cpp", ".so", _MAX_KEPT)
    return ctypes.CDLL(str(cached))
