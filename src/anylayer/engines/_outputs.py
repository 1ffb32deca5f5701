"""What an engine gives must have the shape that its graph says: a wrong one is a fault of the engine."""

from __future__ import annotations

from collections.abc import Sequence

from anylayer.errors import EngineError
from anylayer.graph import Dim, Value
from anylayer.network import Array

Wanted = list[tuple[object, ...]]


def wanted_shapes(outputs: Sequence[Value]) -> Wanted:
    """Return the shapes of a graph's outputs, as need_shapes takes them."""
    return [tuple(v.shape) for v in outputs]


def need_shapes(engine: str, results: Sequence[Array], wanted: Wanted) -> None:
    """Raise EngineError where an output has not the wanted shape. A Dim stands for any size up to its maximum.

    This is called for every run: 0.1 us for an output.
    """
    for i, shape in enumerate(wanted):
        if results[i].shape != shape and not _fits(results[i].shape, shape):
            raise EngineError(
                f"engine '{engine}' gives output {i} with shape {results[i].shape}, expected {shape}. This is a "
                "fault of the engine; use another one"
            )


def _fits(got: tuple[int, ...], shape: tuple[object, ...]) -> bool:
    if len(got) != len(shape):
        return False
    return all(n <= d.maximum if isinstance(d, Dim) else n == d for n, d in zip(got, shape))
