"""Write a neural-network layer once, in plain NumPy. Run, convert and deploy any network that contains it."""

import importlib

from anylayer.api import Net, read
from anylayer.errors import AnyLayerError
from anylayer.export import export
from anylayer.identify import identify
from anylayer.kernels.opencl.files import OpenCL
from anylayer.layer import Layer, field, layer, need

__version__ = "0.2.0"
__all__ = [
    "AnyLayerError",
    "Layer",
    "Net",
    "OpenCL",
    "export",
    "field",
    "identify",
    "layer",
    "need",
    "ops",
    "read",
]


def __getattr__(name: str) -> object:
    """Import `anylayer.ops` when it is first used."""
    if name == "ops":
        return importlib.import_module("anylayer.ops")
    raise AttributeError(f"module 'anylayer' has no attribute '{name}'")
