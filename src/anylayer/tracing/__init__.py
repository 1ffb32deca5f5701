"""Tracing: run a function of NumPy arrays on arrays without data, and get the ONNX operators it amounts to."""

from anylayer.tracing import rules as _rules  # noqa: F401 (enters every rule in the tables)
from anylayer.tracing.array import Traced, is_traced
from anylayer.tracing.dim import Dim
from anylayer.tracing.graph import OPSET, Graph, Op, Value
from anylayer.tracing.record import record, record_many, trace

__all__ = ["OPSET", "Dim", "Graph", "Op", "Traced", "Value", "is_traced", "record", "record_many", "trace"]
