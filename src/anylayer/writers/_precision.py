"""The precision of written files: float32, or float16 or int8 for operators that lose little by it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anylayer.errors import InputError, nearest, need, wording
from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import producer
from anylayer.graph.operators import (
    DISCONTINUOUS,
    ELEMENTWISE,
    EXTREMES,
    MOVES,
    SUMS,
    WEIGHTED_SUMS,
    is_discontinuous,
)
from anylayer.network import Array
from anylayer.numerics import DEEP_HALF_TOLERANCE, INT8_TOLERANCE, largest
from anylayer.source import Source, Written

PRECISIONS = ("float32", "float16", "int8")
_COORDINATES = (
    "Exp", "Log", "Pow", "Sqrt", "Reciprocal", "Div", "Erf", "Min", "Max", "Resize", "ScatterElements",
    "ScatterND",
)  # fmt: skip
"""Operators that stay in float32 because they compute the coordinates of boxes and samples."""
IN_FLOAT32 = (*_COORDINATES, *(SUMS - WEIGHTED_SUMS), *DISCONTINUOUS)
"""Operators that stay in float32: those that compute coordinates, that sum or square many values, and those that
are not continuous."""
_BEFORE_FLOAT32 = ELEMENTWISE | MOVES | EXTREMES
"""Operators that stay in float32 between values in float32 (inputs of the network, for example) and operators in
float32. Coordinates above 2048 would lose their last digits there."""
_INT8 = ("Conv", "Gemm", "MatMul")
"""Operators that are quantized where their weights are constant."""

_BETWEEN = (
    "Relu", "Clip", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "Add", "Mul", "Concat", "Split",
    "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Pad", "Flatten", "Gather", "DepthToSpace", "Resize",
)  # fmt: skip
"""Operators that compute in int8 between two quantized operators, if the runtime has kernels of int8 for them."""

_FUSED = ("Relu", "Clip")
"""Operators that runtimes fuse into the convolution or product before them. If their node stays in float32, so
does the convolution or product."""

_SATURATING = (
    "the weights have 8 bits. On x86 processors without VNNI instructions (most before 2019), ONNX Runtime and "
    "OpenVINO saturate some sums of their products, and the errors are larger"
)
_REDUCED = "the weights have 7 bits, so that no runtime saturates sums of their products"

Sets = Sequence[Mapping[str, Array]]
"""Sets of inputs by name."""


@dataclass(frozen=True, slots=True)
class Precision:
    """The precision that the user has selected, after the options are checked.

    `float32` are the names of the network's nodes that stay in float32, `io` the dtype of the inputs and outputs,
    `calibrate` the sets of inputs that determine the ranges of int8. `reduce_range`: whether its weights have 7
    bits.
    """

    name: str = "float32"
    float32: frozenset[str] = frozenset()
    io: str = "float32"
    calibrate: Sets = ()
    reduce_range: bool = False

    @property
    def half(self) -> bool:
        return self.name == "float16"

    @property
    def int8(self) -> bool:
        return self.name == "int8"

    @property
    def properties(self) -> dict[str, str]:
        """The metadata of a file in this precision, by key."""
        return {"anylayer.int8": _REDUCED if self.reduce_range else _SATURATING} if self.int8 else {}

    def describe(self, done: Written) -> None:
        """State the precision and its tolerance in the result of a writer."""
        if self.int8 and not self.reduce_range:
            remedy = wording("reduce_range=True", "--set reduce_range=true")
            done.notes.append(f"{_SATURATING}. Write it with {remedy} if it must run on older x86 processors")
        done.precision = self.name
        done.tolerance = {"float16": DEEP_HALF_TOLERANCE, "int8": INT8_TOLERANCE}.get(self.name, 0.0)
        done.io = np.dtype(np.float16) if self.io == "float16" else None

    def need_possible(self, graph: Graph) -> None:
        """Raise InputError for a graph that cannot be written in this precision."""
        if self.name == "float32":
            return
        options = wording("functions and keep", "--functions, --function and --keep")
        rule = f"{_spell(self.name)} needs standard operators only; leave out {options}"
        need(not any(o.kept or o.body is not None for o in graph.ops), rule, InputError)
        if self.half:
            _need_float16_weights(graph, self._kept(graph))

    def _kept(self, graph: Graph) -> set[str]:
        """Return the names of the nodes that stay in float32: those that the user named, and those that select
        boxes, which decode coordinates and mark boxes by the lowest number of float32.
        """
        return {*self.float32, *(o.scope for o in graph.ops if o.op == "NonMaxSuppression" and o.scope)}

    def blocked(self, graph: Graph, titles: Sequence[str]) -> list[str]:
        """Return the titles of the operators that must stay in float32, besides those of IN_FLOAT32.

        titles: the titles of all operators.
        """
        float32_nodes = self._kept(graph)
        full = {o for o in graph.ops if o.scope in float32_nodes or o.op in IN_FLOAT32 or is_discontinuous(o)}
        exact = {*graph.inputs} if self.io == "float32" else set[Value]()
        between: set[Op] = set()
        for o in graph.ops:
            floats = [v for v in o.inputs if v is not None and v.const is None and v.dtype == np.float32]
            if o in full or (o in _BEFORE_FLOAT32 and exact.issuperset(floats)):
                exact.update(o.outputs)
                between.add(o)
        float32_values = {*graph.outputs} if self.io == "float32" else set[Value]()
        for o in reversed(graph.ops):
            if o in full or (o in between and not float32_values.isdisjoint(o.outputs)):
                full.add(o)
                float32_values.update(v for v in o.inputs if v is not None)
        return [title for o, title in zip(graph.ops, titles) if o in full]

    def quantized(self, graph: Graph, titles: Sequence[str], source: Source) -> tuple[list[str], list[str]]:
        """Return the titles of the convolutions and matrix products with constant weights, and of the operators
        that may compute in int8 between them. Those of the user's layers are left out. Raises InputError where
        there is no such convolution or product."""
        custom = {t.node.name for t in source.nodes if t.node.type in source.user_types}
        left = custom | self.float32
        sums = [producer(graph.producers, o.inputs[0]) for o in graph.ops if o.op in _FUSED and o.scope in left]
        left |= {o.scope for o in sums if o is not None}
        quantizable = [t for o, t in zip(graph.ops, titles) if _is_weighted_sum(o) and o.scope not in left]
        rule = f"{_spell('int8')} needs a convolution or matrix product with constant weights outside your own"
        need(quantizable, f"{rule} layers, and this network has none", InputError)
        between = [
            t for o, t in zip(graph.ops, titles) if o.op in _BETWEEN and not o.domain and o.scope not in left
        ]
        return quantizable, between


OPTIONS = frozenset(("precision", "float32", "io", "calibrate", "reduce_range"))
"""The options of a writer that `precision_of` takes."""


def precision_of(
    source: Source,
    kept_in: Iterable[str] = PRECISIONS,
    *,
    precision: str = "float32",
    float32: Sequence[str] = (),
    io: str = "float32",
    calibrate: Sets = (),
    reduce_range: bool = False,
    **applied: object,
) -> Precision:
    """Return the precision that a writer's options select.

    kept_in: the precisions that can be combined with the option `float32`.
    precision: "float32"; "float16": weights, and where the file determines it most operators, in float16; "int8":
        convolutions and matrix products in int8, everything else in float32.
    float32: names of nodes that stay in float32.
    io: the dtype of the inputs and outputs, "float32", or "float16" with this precision.
    calibrate: sets of inputs by name, from which int8 takes the range of each value.
    reduce_range: whether weights in int8 have 7 bits. Then no x86 processor saturates sums of their products.
    applied: options whose effect is in `source.graph` already.

    Raises InputError for an unknown precision or node, and for options that do not belong together.
    """
    name = precision
    need(
        name in PRECISIONS,
        f"there is no precision '{name}'{nearest(name, PRECISIONS)}; precisions: {', '.join(PRECISIONS)}",
        InputError,
    )
    need(io in ("float32", "float16"), f"io='{io}': inputs and outputs are float32 or float16", InputError)
    need(io == "float32" or name == "float16", f"io='float16' needs {_spell('float16')}", InputError)
    _need_calibration(name, calibrate)
    rule = f"{wording('reduce_range=True', 'reduce_range=true')} needs {_spell('int8')}"
    need(name == "int8" or not reduce_range, rule, InputError)
    node_names = [t.node.name for t in source.nodes]
    for node in float32:
        rule = f"{wording('float32', '--float32')}: the network has no node '{node}'{nearest(node, node_names)}"
        need(node in node_names, rule, InputError)
    need(
        not float32 or name in kept_in,
        f"{wording('float32', '--float32')} has no effect with {_spell(name)} in this format",
        InputError,
    )
    return Precision(name, frozenset(float32), io, calibrate, reduce_range)


def _spell(precision: str) -> str:
    """Return how the user selects a precision: an argument in Python, an option on the command line."""
    return wording(f"precision='{precision}'", f"--precision {precision}")


def _need_calibration(name: str, calibrate: Sets) -> None:
    remedy = wording("calibrate=[{'data': x}, ...]", "--calibrate FOLDER")
    need(
        name != "int8" or len(calibrate) > 0,
        f"{_spell('int8')} needs calibration data, from which it takes the range of each value: give {remedy}, "
        "with some tens of pictures of the kind that the network was made for",
        InputError,
    )
    rule = f"{wording('calibrate', '--calibrate')} needs {_spell('int8')}"
    need(name == "int8" or len(calibrate) == 0, rule, InputError)


def _is_weighted_sum(o: Op) -> bool:
    weights = o.inputs[1] if o.op in _INT8 and not o.domain else None
    return weights is not None and weights.const is not None and weights.dtype == np.float32


def _need_float16_weights(graph: Graph, names: Container[str]) -> None:
    """Raise InputError where a weight exceeds 65504, the largest number of float16.

    names: the names of the nodes that stay in float32.
    """
    limit = float(np.finfo(np.float16).max)
    for o in graph.ops:
        for v in o.inputs:
            if v is not None and v.const is not None and v.const.dtype == np.float32 and o.scope not in names:
                rule = f"node '{o.scope}' ({o.op}): a weight exceeds {limit:.0f}, the largest number of float16"
                need(largest(v.const) <= limit, rule, InputError)
