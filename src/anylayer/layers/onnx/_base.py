"""The base class of all operators of ONNX's standard set."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import LayerError, TraceError, given, nearest, need, plural
from anylayer.layer import Field, Layer, Message
from anylayer.layers.onnx._call import (
    ANY_SIZE,
    MEANINGS,
    RECORDED,
    SHAPES_ONLY,
    SPELLED_OUT,
    TRACEABLE,
    OpCall,
    Uncovered,
    is_plain,
)
from anylayer.layers.onnx._expand import EXPANDED, expanded
from anylayer.layers.onnx._old import upgraded
from anylayer.layers.onnx._record import (
    at_least,
    attributes,
    default_value,
    has_symbolic_size,
    is_static,
    recorded,
    scaled,
)
from anylayer.layers.onnx._sequences import RECURRENT, batch_first
from anylayer.libraries.onnx import defs, latest, reference, schema
from anylayer.network import Array, Node
from anylayer.tracing import is_traced, size_list, substituted

_UNSUPPORTED_BY_ENGINES = frozenset(("bool", "int8", "int16", "uint8", "uint16", "uint32", "uint64"))
_IDENTITY_OF_ONE_INPUT = frozenset(("Max", "Min", "Sum"))
"""Operators that are the identity for a single input."""
_RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")
)


class Standard(Layer):
    """An operator of ONNX's standard set, whose attributes and meaning are those of its schema.

    Traced, it is recorded as itself, in the form of the graph's operator set. Called with arrays, it computes the
    NumPy meaning that is registered here, or else that of the reference implementation of onnx.
    """

    message = "attribute"
    version: int
    domain: ClassVar[str] = ""

    def prepare(self, node: Node, dialect: str | None) -> None:
        self.version = node.version or latest()
        self.type = node.type
        self._references: dict[Any, Any] = {}
        super().prepare(node, dialect)

    def _take(self, target: Message, name: str, node: Node) -> None:
        found = schema(node.type, self.version, self.domain)
        declared = given(found, f"operator set {self.version} has no {node.type}").attributes
        values = node.params.get(name, {})
        for key in values:
            if key not in declared:
                hint = nearest(key, declared) or f"; it has: {', '.join(sorted(declared)) or 'none'}"
                raise LayerError(f"{node.type} has no attribute '{key}' in operator set {self.version}{hint}")
        for key, one in declared.items():
            need(key in values or not one.required, f"attribute '{key}' is missing")
        defaults = {k: v for k in declared if (v := default_value(declared[k].default_value)) is not None}
        target.assign(values, defaults=defaults, message=name)
        self._check_inputs(found, node)

    def _check_inputs(self, found: Any, node: Node) -> None:
        given, minimum, maximum = len(node.inputs), found.min_input, found.max_input
        count = plural(minimum, "input") if minimum == maximum else f"{minimum} to {maximum} inputs"
        if maximum > 1000:  # the schema states no limit
            count = f"{plural(minimum, 'input')} or more"
        need(minimum <= given <= maximum, f"takes {count}, got {given}")
        outputs = len(node.outputs)
        need(outputs <= found.max_output, f"has at most {plural(found.max_output, 'output')}, got {outputs}")
        for i, formal in enumerate(found.inputs[:given]):
            optional = formal.option == defs.OpSchema.FormalParameterOption.Optional
            need(node.inputs[i] or optional, f"input {i} ({formal.name}) is missing")

    def attributes(self) -> dict[str, Any]:
        """Return the values of all attributes that the node's operator set declares, by name."""
        declared = schema(self.type, self.version, self.domain).attributes
        return {name: getattr(self, name) for name in declared}

    def call(self, inputs: list[Any]) -> OpCall:
        """Return the operator with its inputs, in the form of the graph's operator set."""
        while inputs and inputs[-1] is None:
            inputs.pop()
        version = at_least(self.version)
        made = upgraded(OpCall(self.type, self.version, inputs, self.attributes(), self.outputs), version)
        declared = schema(made.op, made.version).attributes
        made.attrs = {n: made.attrs.get(n, default_value(one.default_value)) for n, one in declared.items()}
        spell_out = SPELLED_OUT.get(made.op)
        if spell_out is not None and (made.op in ANY_SIZE or all(map(is_static, made.inputs))):
            substituted(spell_out)(made)
        return made

    def forward(self, *inputs: Array) -> list[Array]:
        made = self.call(list(inputs))
        if not any(map(is_traced, made.inputs)):
            return self.computed(made)
        need(
            self.type not in _RANDOM,
            f"{self.type} draws random numbers, which cannot be recorded",
            TraceError,
        )
        if made.attrs.get("layout") and made.op in RECURRENT:
            return self._shaped(made, batch_first(made, self._results))
        return self._shaped(made, self._results(made))

    def _results(self, made: OpCall) -> Any:
        static = all(map(is_static, made.inputs))
        is_open = has_symbolic_size(made.inputs) or _takes_sizes(made)
        if made.op in RECORDED or (made.op in MEANINGS and is_open):
            try:
                return substituted(MEANINGS[made.op])(made, *made.inputs)
            except Uncovered:
                return recorded(made)
        if static and (made.op in SHAPES_ONLY or (made.op in TRACEABLE and _unsupported_by_engines(made))):
            return MEANINGS[made.op](made, *made.inputs)
        if made.op in ("Transpose", "Pad") and not made.inputs[0].shape:
            return made.inputs[0]
        if static and (_differs(made) or (made.op in _IDENTITY_OF_ONE_INPUT and len(made.inputs) == 1)):
            return MEANINGS[made.op](made, *made.inputs)
        return expanded(made) if made.op in EXPANDED else recorded(made)

    def computed(self, made: OpCall) -> list[Array]:
        """Return the outputs for arrays."""
        found: Any = MEANINGS.get(made.op, self._reference)
        if any(x is not None and not is_plain(x.dtype) for x in made.inputs):
            found = self._reference
        try:
            results = found(made, *made.inputs)
        except Uncovered:
            results = self._reference(made, *made.inputs)
        return self._shaped(made, results)

    def _shaped(self, made: OpCall, results: Any) -> list[Array]:
        listed = list(results) if isinstance(results, (list, tuple)) else [results]
        if made.shape is not None:
            listed = [y.reshape(made.shape) for y in listed]
        return listed[: self.outputs]

    def _reference(self, made: OpCall, *inputs: Any) -> Any:
        given = tuple(x is not None for x in made.inputs)
        key = (made.op, given)
        if key not in self._references:
            try:
                self._references[key] = reference(
                    made.op, made.version, given, attributes(made), made.outputs, self.domain
                )
            except LookupError as error:
                raise LayerError(f"{error} to compute it with. Give a class for it") from error
        try:
            return self._references[key](*inputs)
        except Exception as error:  # the reference implementation may raise anything
            shapes = ", ".join("none" if x is None else f"{x.dtype}{list(x.shape)}" for x in inputs)
            raise LayerError(f"does not take {shapes} ({type(error).__name__}: {error})") from error


def _takes_sizes(made: OpCall) -> bool:
    """Return whether symbolic sizes determine the shape of the output."""
    first = 0 if made.op in ("ConstantOfShape", "Range") else 1
    return any(size_list(x) is not None for x in made.inputs[first:])


def _unsupported_by_engines(made: OpCall) -> bool:
    if made.op == "Mod" and made.inputs[0].dtype.kind == "f":
        return not made["fmod"]  # the remainder with the sign of the divisor, which ONNX has for integers only
    return any(x.dtype.name in _UNSUPPORTED_BY_ENGINES for x in made.inputs if x is not None)


def _differs(made: OpCall) -> bool:
    """Return whether engines compute this form of an operator differently, so that its meaning is recorded.

    They round windows of poolings with ceil_mode differently. OpenVINO ignores storage_order, ONNX Runtime takes
    MaxUnpool's indices as positions in output_shape, and truncates resized integers.
    """
    if made.op == "MaxPool" and made["storage_order"] and made.outputs > 1:
        return True
    if made.op == "MaxUnpool":
        return made.input(2) is not None and not is_traced(made.input(2))
    if made.op == "Resize":
        integers = made.inputs[0].dtype.kind in "iu" and made["mode"] != "nearest"
        constant = not any(map(is_traced, made.inputs[1:]))
        return constant and (integers or made["nearest_mode"] == "simple" or _rounds_sizes(made))
    dilated = any(d != 1 for d in made["dilations"] or ())
    return made.op in ("MaxPool", "AveragePool") and bool(made["ceil_mode"]) and made.outputs == 1 and not dilated


def _rounds_sizes(made: OpCall) -> bool:
    """Return whether the sizes of a Resize by scales depend on the precision of their product: see scaled."""
    scales = made.input(2)
    if scales is None:
        return False
    shape, axes = made.inputs[0].shape, made["axes"] or range(len(made.inputs[0].shape))
    pairs = [(shape[a], float(f)) for a, f in zip(axes, np.asarray(scales).reshape(-1))]
    return any(scaled(n, f) != math.floor(n * f) for n, f in pairs)


def fields_of(versions: list[Any]) -> dict[str, Field]:
    """Return a field for every attribute that an operator has in any version; defaults depend on the version."""
    kinds = {"INT": "int64", "INTS": "int64", "FLOAT": "float", "FLOATS": "float", "STRING": "string"}
    found: dict[str, Field] = {}
    for one in versions:
        for name, declared in one.attributes.items():
            word = declared.type.name
            same = name not in found or found[name].kind == kinds.get(word, "any")
            kind = kinds.get(word, "any") if same else "any"
            found[name] = Field(0, kind, None, word.endswith("S") and kind != "any", declared.description.strip())
    return found
