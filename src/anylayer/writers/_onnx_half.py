"""A graph as an ONNX model in half precision, for engines that compute in the types of the model."""

from __future__ import annotations

from typing import Any

from anylayer.errors import EngineError, InputError
from anylayer.graph import Graph
from anylayer.writers._onnx_model import titles, to_onnx
from anylayer.writers._precision import IN_FLOAT32, Precision


def to_half(graph: Graph) -> Any:
    """Return the graph as an ONNX model with weights and most operators in float16.

    Inputs and outputs stay in float32, and so do the operators that lose much precision in float16. Raises
    EngineError where a weight exceeds float16.
    """
    from anylayer.libraries.onnxruntime import to_float16

    half = Precision("float16")
    try:
        half.need_possible(graph)
    except InputError as error:
        raise EngineError(str(error)) from None
    return to_float16(to_onnx(graph), IN_FLOAT32, half.blocked(graph, titles(graph)), keep_io=True)
