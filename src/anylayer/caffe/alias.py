"""Make `import caffe` give anylayer.caffe, for scripts and layers that are used unchanged."""

from __future__ import annotations

import importlib
import sys

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


def install() -> None:
    """Make `import caffe`, `from caffe.proto import caffe_pb2` and the like give anylayer's modules.

    Call it before the first `import caffe` of the program. A Caffe that is imported already stays.
    """
    if "caffe" in sys.modules:
        return
    sys.modules["caffe"] = importlib.import_module("anylayer.caffe")
    for name in _SUBMODULES:
        sys.modules[f"caffe.{name}"] = importlib.import_module(f"anylayer.caffe.{name}")
