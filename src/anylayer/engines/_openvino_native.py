"""Native layers as operations of OpenVINO's models.

OpenVINO's interface for operations is C++ and differs between its versions, so the operation is compiled for the
OpenVINO that is installed. This takes a few seconds, and is done once: see kernels/cache.py. Where there is no
compiler, a native layer is a step between two models instead.
"""

from __future__ import annotations

import hashlib
from functools import cache

from anylayer.errors import FileError, InputError
from anylayer.kernels.cache import library
from anylayer.kernels.compiler import compiler, sdk
from anylayer.libraries.openvino import extension_flags, ov, shared_core

_SOURCE = "share/openvino/native_layer.cpp"
_HEADERS = ("include/anylayer/abi.h", "include/anylayer/detail/embedded.hpp")


@cache
def has_operation() -> bool:
    """Return whether OpenVINO has the operation NativeLayer. The first call compiles it, if necessary, and adds it
    to the shared core."""
    flags = extension_flags()
    if flags is None:
        return False
    try:
        source = (sdk() / _SOURCE).read_text("utf-8")
        built = library(source, compiler(), ["-w", f"-DANYLAYER_KEY={_key()}", *flags])
        shared_core().add_extension(built._name)
    except (FileError, InputError, OSError, RuntimeError):
        return False
    return True


def _key() -> str:
    """Return a hash of the headers and of OpenVINO's version, on which the compiled operation depends."""
    texts = [(sdk() / name).read_bytes() for name in _HEADERS]
    return hashlib.sha256(b"\0".join([*texts, ov.__version__.encode()])).hexdigest()
