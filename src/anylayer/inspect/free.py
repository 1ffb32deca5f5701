"""Assume that layers of some types take no time, to estimate what the rest of a network costs.

A stub takes the place of such a layer, as a native kernel would: it gives arrays of zeros. So the gain from a
faster layer is known before the layer is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anylayer.compile.nodes import Definitions, trace_nodes
from anylayer.errors import LayerError, given, need, need_one_of, plural, wording
from anylayer.graph.operators import SIZED_BY_DATA
from anylayer.inspect.costs import Steered
from anylayer.layer import Definition
from anylayer.layer.bound import shapes_only, stated_types
from anylayer.layer.native import NativeProgram
from anylayer.network import ABSENT, Array, DType, Network, Node, Shape, TensorType
from anylayer.source import TracedNode

SAME = "same"
"""In place of shapes: each output has the shape of the first input."""
Shapes = Sequence[Shape] | str | None
"""The shapes of a layer's outputs; SAME; or None if the layer or the file declares them."""

_STEERED = {
    **dict.fromkeys(SIZED_BY_DATA, "the size of its output"),
    "NonMaxSuppression": "the number of boxes that it keeps",
    "TopK": "what it sorts",
    "If": "a branch",
    "Loop": "the number of its steps",
    "Scan": "the number of its steps",
}
"""Operator whose work depends on values -> the part of its work that depends on them."""
_PYTHON = "it runs in Python, and its time may depend on values"


class FreeLayer:
    """A layer that is assumed to take no time: see layer.native.NativeNode."""

    def __init__(self, node: Node, outputs: Sequence[TensorType]) -> None:
        self.node = node
        self.outputs = list(outputs)
        self.internals: list[TensorType] = []
        self.configuration = "assumed free"
        self.notes = [f"assumed free, with outputs {', '.join(map(str, outputs))} of zeros"]
        self._arrays = [np.zeros(t.shape, t.dtype) for t in outputs]
        for array in self._arrays:
            array.setflags(write=False)

    def program(self, threads: int | None = None) -> NativeProgram:
        """Return a function that gives zeros."""

        def call(inputs: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Array]:
            return self._arrays

        return call

    def forward(self, inputs: Sequence[Array | None]) -> list[Array]:
        """Return zeros."""
        return list(self._arrays)

    def error(self, text: str) -> LayerError:
        """Return a LayerError."""
        return LayerError(text, self.node.place)


class FreeType:
    """A layer type that is assumed free: see layer.native.Kernel. `known` are the type's definitions, if any."""

    origin = "assumed free"

    def __init__(self, network: Network, definitions: Sequence[Definition], shapes: Shapes) -> None:
        self._network, self._known, self._shapes = network, definitions, shapes

    def __call__(
        self,
        node: Node,
        types: Sequence[TensorType],
        dtype: DType | None = None,
        outputs: Sequence[TensorType] | None = None,
    ) -> FreeLayer:
        """Make a stub for a node. Raises LayerError where the shapes of its outputs are not known."""
        if self._shapes is None:
            return FreeLayer(node, self._found(node, types))
        first = next((t for t in types if t != ABSENT), None)
        result_dtype = dtype or (first.dtype if first is not None else np.dtype(np.float32))
        shapes = self._shapes
        if isinstance(shapes, str):
            one = given(first, f"{SAME}: the layer has no input whose shape its output could have")
            shapes = [one.shape] * len(node.outputs)
        need(
            len(shapes) == len(node.outputs),
            f"is assumed free with {len(shapes)} output shapes; it has {plural(len(node.outputs), 'output')} "
            f"({', '.join(node.outputs)})",
        )
        return FreeLayer(node, [TensorType(shape, result_dtype) for shape in shapes])

    def _found(self, node: Node, types: Sequence[TensorType]) -> list[TensorType]:
        """Return the output types that the class, or else the file, declares. A dynamic size is its maximum."""
        shapes = shapes_only(self._known)
        if shapes is not None:
            return stated_types(replace(shapes, kernel=self), node, types)
        network = self._network
        inputs: dict[str, TensorType | None] = {**network.inputs, **dict(zip(node.inputs, types))}
        (traced,) = trace_nodes(network, [node], {node.type: self._known}, inputs, lenient=True)
        known_types = [t for t in traced.outputs if t is not None]
        types_now = [
            TensorType(tuple(d if isinstance(d, int) else d.maximum for d in t.shape), t.dtype)
            for t in known_types
        ]
        if len(types_now) < len(node.outputs):
            t = node.type
            remedy = wording(
                f"net.assume_free({{'{t}': [(1, 64, 28, 28)]}}), or '{SAME}' for the shape of the input",
                f"--assume-free {t}=1,64,28,28, or {t}={SAME} for the shape of the input",
            )
            raise LayerError(
                "is assumed free, but neither a class with getMemoryShapes nor the file states the shapes of its "
                f"outputs. Give them: {remedy}"
            )
        return types_now


def with_stubs(
    network: Network, definitions: Mapping[str, list[Definition]], types: Mapping[str, Shapes]
) -> dict[str, list[Definition]]:
    """Return the definitions of a network with stubs in place of those of these types.

    types: layer type -> the shapes of its outputs, SAME, or None to take those that the layer's class (its
    getMemoryShapes is enough) or the file declares. Raises InputError for a type that no layer has.
    """
    present = {node.type for node in network.nodes}
    for type_ in types:
        need_one_of(type_, present, f"{network.source}: there is no layer of type '{type_}'")
    stubs = {type_: FreeType(network, definitions[type_], shapes) for type_, shapes in types.items()}
    return {**definitions, **{t: [Definition(t, stub, stub.origin, (), stub)] for t, stub in stubs.items()}}


def free_types(definitions: Definitions) -> list[str]:
    """Return the types that are assumed free, sorted."""
    return sorted(t for t, all_ in definitions.items() if any(isinstance(d.kernel, FreeType) for d in all_))


def steered_by(traced: Iterable[TracedNode]) -> list[Steered]:
    """Return the nodes whose work depends on values that come from layers that are assumed free.

    With any of them, the times of the network are no estimate, because stubs give other values than the layers.
    """
    source: dict[str, str] = {}
    steered = []
    for t in traced:
        node = t.node
        after = next((source[name] for name in node.inputs if name in source), "")
        if isinstance(t.kernel, FreeLayer):
            after = node.name
        elif after:
            steered += [Steered(after, node.name, node.type, why) for why in _reasons(t)]
        if after:
            source.update(dict.fromkeys(node.outputs, after))
    return steered


def _reasons(t: TracedNode) -> list[str]:
    """Return how the work of a node depends on values."""
    if t.is_host_call:
        return [_PYTHON]
    ops = t.body.ops if t.body is not None and t.kernel is None else []
    named = [f"{o.op}: {_STEERED[o.op]}" for o in ops if o.op in _STEERED]
    sized = any(not isinstance(d, int) for o in ops for v in o.outputs for d in v.shape)
    return list(dict.fromkeys(named)) or (["the size of an array"] if sized else [])
