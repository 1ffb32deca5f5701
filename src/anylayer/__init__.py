"""Write a neural-network layer once, in plain NumPy; run, convert and deploy any network that has it."""

from anylayer.errors import AnyLayerError
from anylayer.layer import Layer, field, layer, need

__version__ = "0.1.0"
__all__ = ["AnyLayerError", "Layer", "field", "layer", "need"]
