"""Write a neural-network layer once, in plain NumPy. Run, convert and deploy any network that contains it."""

import sys
from typing import TYPE_CHECKING

from anylayer.api import Net, read
from anylayer.errors import AnyLayerError
from anylayer.folders import NamesByFile
from anylayer.kernels.opencl.files import OpenCL
from anylayer.layer import Layer, field, layer, need

if TYPE_CHECKING:
    from anylayer import ops
    from anylayer.diff import diff
    from anylayer.export import export
    from anylayer.identify import identify
    from anylayer.write_weights import write_weights

__version__ = "0.2.0"
__all__ = [
    "AnyLayerError",
    "Layer",
    "Net",
    "OpenCL",
    "diff",
    "export",
    "field",
    "identify",
    "layer",
    "need",
    "ops",
    "read",
    "write_weights",
]

sys.modules[__name__].__class__ = NamesByFile
