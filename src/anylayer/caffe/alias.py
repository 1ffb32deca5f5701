"""Make `import caffe` give anylayer.caffe, for scripts and layers that are used unchanged."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from anylayer.errors import InputError, need

_SUBMODULES = (
    "_caffe",
    "classifier",
    "coord_map",
    "detector",
    "draw",
    "io",
    "net_spec",
    "proto",
    "proto.caffe_pb2",
    "pycaffe",
)
_process: dict[str, str | None] = {"dialect": None}


def install(dialect: str | None = None) -> None:
    """Make `import caffe`, `from caffe.proto import caffe_pb2` and the like give anylayer's modules.

    Call it before the first `import caffe` of the program. A Caffe that is imported already stays. With a dialect,
    `caffe_pb2` has the messages of this fork of Caffe, and `caffe.Net` reads and saves files of it, for the whole
    process. Raise InputError for a dialect whose numbers of fields are not known, and where another Caffe is
    imported.
    """
    ours = importlib.import_module("anylayer.caffe")
    if dialect is not None:
        other = sys.modules.get("caffe", ours) is not ours
        need(not other, f"dialect='{dialect}' has no effect: another caffe is imported already", InputError)
        messages: Any = importlib.import_module("anylayer.caffe.proto.caffe_pb2")
        messages.use(dialect)
        _process["dialect"] = dialect
    if "caffe" in sys.modules:
        return
    sys.modules["caffe"] = ours
    for name in _SUBMODULES:
        sys.modules[f"caffe.{name}"] = importlib.import_module(f"anylayer.caffe.{name}")


def installed_dialect() -> str | None:
    """Return the dialect that `install` has chosen for the process, or None."""
    return _process["dialect"]
