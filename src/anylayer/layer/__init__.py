"""The layer contract: what a layer class is, and how it is registered, found and bound to a node."""

import sys
from typing import TYPE_CHECKING

from anylayer.errors import need, need_shape
from anylayer.folders import NamesByFile
from anylayer.layer.bound import Bound, bind
from anylayer.layer.contract import Layer
from anylayer.layer.fields import Enum, Field, Message, attribute, field
from anylayer.layer.files import load_layers
from anylayer.layer.registry import Definition, Registry, layer
from anylayer.network import Array, Node, Shape, TensorType

if TYPE_CHECKING:
    from anylayer.layer import samples

__all__ = [
    "Array",
    "Bound",
    "Definition",
    "Enum",
    "Field",
    "Layer",
    "Message",
    "Node",
    "Registry",
    "Shape",
    "TensorType",
    "attribute",
    "bind",
    "field",
    "layer",
    "load_layers",
    "need",
    "need_shape",
    "samples",
]

sys.modules[__name__].__class__ = NamesByFile
