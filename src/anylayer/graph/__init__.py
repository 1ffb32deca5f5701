"""The graph: ONNX operators as plain dataclasses, static and dynamic sizes, places in the user's code."""

import sys
from typing import TYPE_CHECKING

from anylayer.folders import NamesByFile
from anylayer.graph.ir import OPSET, Graph, Op, Value
from anylayer.graph.repetition import TooManyOperators
from anylayer.graph.sizes import Dim

if TYPE_CHECKING:
    from anylayer.graph import intervals

__all__ = ["OPSET", "Dim", "Graph", "Op", "TooManyOperators", "Value", "intervals"]

sys.modules[__name__].__class__ = NamesByFile
