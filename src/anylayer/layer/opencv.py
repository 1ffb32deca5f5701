"""OpenCV's contract for a layer's class: its calls, the shapes that it declares, the arrays it returns."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import LayerError, TraceError, given, need, plural
from anylayer.graph.symbolic import as_index, plain
from anylayer.layer.functions import require_fields_taken
from anylayer.layer.order import Order, order_seen, permuted, stated_order
from anylayer.layer.registry import Definition
from anylayer.network import ABSENT, Flag, Function, Node, Shape, TensorType, Word

METHODS = "__init__(self, params, blobs), getMemoryShapes(self, inputs), forward(self, inputs)"

_MAX_NUMBER_BYTES = 8
"""The size of the largest number, in bytes. NumPy's float128 has no counterpart in files and engines."""

CallUser = Function
"""A function that calls the user's code with arguments, and turns its exceptions into LayerErrors."""


@dataclass(slots=True)
class Made:
    """An instance of a user's class.

    `declared` are the shapes of its outputs in the file's order of axes, None where it declares none. `order`
    converts to the order of axes that the class sees, None where that is the file's. `notes` are for the user.
    """

    instance: Any
    declared: list[Shape] | None = None
    order: Order | None = None
    notes: list[str] = field(default_factory=list)


def opencv_params(params: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return params as OpenCV gives them to a Python layer: one flat dict. Unlike OpenCV, it keeps signs and
    lists.

    Each field of each message is under its own name. Where two messages have the same field, the outer or earlier
    one wins. `defaults` fill in the fields that `params` lacks.
    """
    flat: dict[str, Any] = {}

    def put(values: Mapping[str, Any]) -> None:
        nested = []
        for name, value in values.items():
            if isinstance(value, Mapping):
                nested.append(value)
            elif isinstance(value, list):
                if any(isinstance(v, Mapping) for v in value):
                    nested.extend(v for v in value if isinstance(v, Mapping))
                else:
                    flat.setdefault(name, tuple(map(_without_word, value)))
            else:
                flat.setdefault(name, _without_word(value))
        for message in nested:
            put(message)

    put(params)
    if defaults:
        put(defaults)
    return flat


def _without_word(value: Any) -> Any:
    return str(value) if isinstance(value, Word) and not isinstance(value, Flag) else value


def make(call: CallUser, node: Node, definition: Definition, types: Sequence[TensorType]) -> Made:
    """Make an instance for these input types: call `__init__`, getMemoryShapes and finalize once each."""
    need(callable(definition.cls), f"a layer's class is needed, got {type(definition.cls).__name__}")
    seen = order_seen(definition.cls, node)
    stated = bool(stated_order(definition.cls))
    require_fields_taken(definition.cls, node.params)
    blobs = tuple(np.array(b, np.float32 if b.dtype.kind == "f" else b.dtype, order="C") for b in node.blobs)
    made = Made(call(definition.cls, opencv_params(node.params, node.defaults), blobs))
    if node.layout and seen != node.layout:
        made.order = Order(node.layout, seen, stated)
        if not stated and any(len(t.shape) == 4 for t in types):
            made.notes.append(
                f"the class sees arrays of rank 4 as {seen}, as in OpenCV, and the file has {node.layout}; to see "
                f'those, write layout = "{node.layout}" in the class'
            )
    shapes_of = _method(call, made.instance, "getMemoryShapes")
    if definition.kernel is None or shapes_of is None:
        given(_method(call, made.instance, "forward"), "the class has no forward(inputs)")
    if shapes_of is not None:
        made.declared = _declared_shapes(call, shapes_of, made.order, node, types)
    finalize = _method(call, made.instance, "finalize")
    if finalize is not None and _takes_two(finalize):
        _finalize(call, finalize, made, types)
    return made


def _method(call: CallUser, instance: Any, name: str) -> Any:
    """Return a method of the instance, or None. Raise LayerError where the attribute is not callable."""
    method = call(getattr, instance, name, None, name=name)
    need(method is None or callable(method), f"{name} must be a method, got {type(method).__name__}")
    return method


def _declared_shapes(
    call: CallUser, shapes_of: Any, order: Order | None, node: Node, types: Sequence[TensorType]
) -> list[Shape]:
    """Return the shapes of the outputs that getMemoryShapes declares, in the file's order of axes."""
    file = [t.shape for t in types]
    seen = file if order is None else [permuted(s, order.file, order.seen) for s in file]
    shapes = _read_shapes(call(shapes_of, [list(s) for s in seen]))
    need(
        len(shapes) == len(node.outputs),
        f"getMemoryShapes returns {plural(len(shapes), 'shape')}, "
        f"the node has {plural(len(node.outputs), 'output')}",
    )
    if order is None:
        return shapes
    for i, shape in enumerate(shapes):
        order.check(shape, file, f"output {i} of getMemoryShapes")
    return [permuted(s, order.seen, order.file) for s in shapes]


def _read_shapes(answer: Any) -> list[Shape]:
    """Return the result of getMemoryShapes as shapes. Raise LayerError unless it is a list of lists of sizes."""
    try:
        shapes = [plain([*map(as_index, shape)]) for shape in answer]
    except TraceError:
        raise
    except Exception:
        shapes = []
        wrong = True
    else:
        wrong = isinstance(answer, (str, Mapping))
    need(
        not wrong,
        f"getMemoryShapes must return a list of shapes, got {_brief(answer)}. Return one list of integers per "
        "output, for example [[1, 64, 28, 28]]",
    )
    negative = next((shape for shape in shapes if any(d < 0 for d in shape)), None)
    need(negative is None, f"getMemoryShapes returns {negative}, a size cannot be negative")
    return shapes


def _brief(value: Any) -> str:
    """Return a value as text for an error message, at most 80 characters long."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _takes_two(function: Any) -> bool:
    """Return whether a method takes two arguments. OpenCV never calls finalize in Python: it may be anything."""
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


def _finalize(call: CallUser, finalize: Any, made: Made, types: Sequence[TensorType]) -> None:
    """Call finalize(inputs, outputs) with read-only arrays of zeros, because only their shapes matter."""
    declared = made.declared
    if declared is None:
        raise LayerError(
            "finalize(inputs, outputs) needs getMemoryShapes, which declares the shapes of the outputs"
        )
    unsized = [t for t in types if not all(isinstance(d, int) for d in t.shape)]
    need(not unsized, f"finalize needs the size of {unsized[0] if unsized else ''}, which depends on data")
    inputs = [None if t is ABSENT else np.broadcast_to(np.zeros((), t.dtype), t.shape) for t in types]
    outputs = [np.broadcast_to(np.float32(0), shape) for shape in declared]
    if made.order is not None:
        inputs, outputs = made.order.to_class(inputs), made.order.to_class(outputs)
    call(finalize, inputs, outputs)


def require_numbers(output: Any, index: int) -> None:
    """Raise LayerError for an output of a user's forward that is not an array of numbers."""
    if type(output) is np.ndarray and output.dtype.kind in "biuf" and output.itemsize <= _MAX_NUMBER_BYTES:
        return
    kind = type(output).__name__
    need(
        isinstance(output, (np.ndarray, np.generic)),  # also true for a traced array
        f"output {index} of forward is a {kind}, not an array. Return NumPy arrays",
    )
    masked = type(output) is np.ma.MaskedArray
    need(
        output.dtype.kind in "biuf" and output.dtype.itemsize <= _MAX_NUMBER_BYTES and not masked,
        f"output {index} of forward is {'a masked array' if masked else f'an array of {output.dtype}'}. Return "
        "arrays of real numbers of at most 64 bits, for example float32",
    )
