"""The graph: ONNX operators as plain dataclasses, static and dynamic sizes, places in the user's code."""

from anylayer.graph.ir import OPSET, Graph, Op, TooManyOperators, Value
from anylayer.graph.sizes import Dim

__all__ = ["OPSET", "Dim", "Graph", "Op", "TooManyOperators", "Value"]
