"""The layer class of ONNX's operators: their outputs for arrays, and the operators that record them."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import LayerError, TraceError, given, nearest, need, plural
from anylayer.graph.operators import RANDOM, RECURRENT, SEVERAL
from anylayer.layer import Field, Layer, Message
from anylayer.layers.onnx import (  # noqa: F401 (meanings are registered when their files are loaded)
    _movement,
    _quantized,
    _windows,
)
from anylayer.layers.onnx._arithmetic import batch_first
from anylayer.layers.onnx._call import (
    ANY_SIZE,
    ARRAYS_ONLY,
    MEANINGS,
    RECORDED,
    SHAPES_ONLY,
    SPELLED_OUT,
    TRACEABLE,
    NoMeaning,
    OpCall,
    is_plain,
)
from anylayer.layers.onnx._old import upgrade
from anylayer.layers.onnx._record import (
    EXPANDED,
    at_least,
    attributes,
    default_value,
    expand,
    has_symbolic_size,
    is_static,
    recorded,
    scaled,
)
from anylayer.libraries.onnx import defs, latest, reference, schema
from anylayer.network import Array, Node
from anylayer.tracing import is_traced, size_list, substituted

_UNSUPPORTED_BY_ENGINES = frozenset(("bool", "int8", "int16", "uint8", "uint16", "uint32", "uint64"))


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
        operator = schema(node.type, self.version, self.domain)
        declared = given(operator, f"operator set {self.version} has no {node.type}").attributes
        values = node.params.get(name, {})
        for key in values:
            if key not in declared:
                hint = nearest(key, declared) or f"; it has: {', '.join(sorted(declared)) or 'none'}"
                raise LayerError(f"{node.type} has no attribute '{key}' in operator set {self.version}{hint}")
        for key, one in declared.items():
            need(key in values or not one.required, f"attribute '{key}' is missing")
        defaults = {k: v for k in declared if (v := default_value(declared[k].default_value)) is not None}
        target.assign(values, defaults=defaults, message=name)
        self._check_inputs(operator, node)

    def _check_inputs(self, operator: Any, node: Node) -> None:
        inputs, minimum, maximum = len(node.inputs), operator.min_input, operator.max_input
        count = plural(minimum, "input") if minimum == maximum else f"{minimum} to {maximum} inputs"
        if maximum > 1000:  # the schema states no limit
            count = f"{plural(minimum, 'input')} or more"
        need(minimum <= inputs <= maximum, f"takes {count}, got {inputs}")
        outputs = len(node.outputs)
        need(outputs <= operator.max_output, f"has at most {plural(operator.max_output, 'output')}, got {outputs}")
        for i, formal in enumerate(operator.inputs[:inputs]):
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
        result = upgrade(OpCall(self.type, self.version, inputs, self.attributes(), self.outputs), version)
        declared = schema(result.op, result.version).attributes
        result.attrs = {n: result.attrs.get(n, default_value(one.default_value)) for n, one in declared.items()}
        spell_out = SPELLED_OUT.get(result.op)
        if spell_out is not None and (result.op in ANY_SIZE or all(map(is_static, result.inputs))):
            substituted(spell_out)(result)
        return result

    def forward(self, *inputs: Array) -> list[Array]:
        call = self.call(list(inputs))
        if not any(map(is_traced, call.inputs)):
            return self.compute(call)
        need(
            self.type not in RANDOM.names,
            f"{self.type} draws random numbers, which cannot be recorded",
            TraceError,
        )
        if call.attrs.get("layout") and call.op in RECURRENT.names:
            return self._as_outputs(call, batch_first(call, self._results))
        return self._as_outputs(call, self._results(call))

    def _results(self, call: OpCall) -> Any:
        static = all(map(is_static, call.inputs))
        is_open = has_symbolic_size(call.inputs) or _takes_sizes(call)
        if call.op in RECORDED or (is_open and call.op in MEANINGS and call.op not in ARRAYS_ONLY):
            try:
                return substituted(MEANINGS[call.op])(call, *call.inputs)
            except NoMeaning:
                return recorded(call)
        if static and (call.op in SHAPES_ONLY or (call.op in TRACEABLE and _unsupported_by_engines(call))):
            return MEANINGS[call.op](call, *call.inputs)
        if call.op in ("Transpose", "Pad") and not call.inputs[0].shape:
            return call.inputs[0]
        if static and (_differs(call) or (call.op in SEVERAL.names and len(call.inputs) == 1)):
            return MEANINGS[call.op](call, *call.inputs)
        return expand(call) if call.op in EXPANDED else recorded(call)

    def compute(self, call: OpCall) -> list[Array]:
        """Return the outputs for arrays."""
        function: Any = MEANINGS.get(call.op, self._reference)
        if any(x is not None and not is_plain(x.dtype) for x in call.inputs):
            function = self._reference
        try:
            results = function(call, *call.inputs)
        except NoMeaning:
            results = self._reference(call, *call.inputs)
        return self._as_outputs(call, results)

    def _as_outputs(self, call: OpCall, results: Any) -> list[Array]:
        listed = list(results) if isinstance(results, (list, tuple)) else [results]
        if call.shape is not None:
            listed = [y.reshape(call.shape) for y in listed]
        return listed[: self.outputs]

    def _reference(self, call: OpCall, *inputs: Any) -> Any:
        present = tuple(x is not None for x in call.inputs)
        key = (call.op, present)
        if key not in self._references:
            try:
                self._references[key] = reference(
                    call.op, call.version, present, attributes(call), call.outputs, self.domain
                )
            except LookupError as error:
                raise LayerError(f"{error} to compute it with. Give a class for it") from error
        try:
            return self._references[key](*inputs)
        except Exception as error:  # the reference implementation may raise anything
            shapes = ", ".join("none" if x is None else f"{x.dtype}{list(x.shape)}" for x in inputs)
            raise LayerError(f"does not take {shapes} ({type(error).__name__}: {error})") from error


def _takes_sizes(call: OpCall) -> bool:
    """Return whether symbolic sizes determine the shape of the output."""
    first = 0 if call.op in ("ConstantOfShape", "Range") else 1
    return any(size_list(x) is not None for x in call.inputs[first:])


def _unsupported_by_engines(call: OpCall) -> bool:
    if call.op == "Mod" and call.inputs[0].dtype.kind == "f":
        return not call["fmod"]  # the remainder with the sign of the divisor, which ONNX has for integers only
    return any(x.dtype.name in _UNSUPPORTED_BY_ENGINES for x in call.inputs if x is not None)


def _differs(call: OpCall) -> bool:
    """Return whether engines compute this form of an operator differently, so that its meaning is recorded.

    They round windows of poolings with ceil_mode differently. OpenVINO ignores storage_order, ONNX Runtime takes
    MaxUnpool's indices as positions in output_shape, and truncates resized integers.
    """
    if call.op == "MaxPool" and call["storage_order"] and call.outputs > 1:
        return True
    if call.op == "MaxUnpool":
        return call.input(2) is not None and not is_traced(call.input(2))
    if call.op == "Resize":
        integers = call.inputs[0].dtype.kind in "iu" and call["mode"] != "nearest"
        constant = not any(map(is_traced, call.inputs[1:]))
        return constant and (integers or call["nearest_mode"] == "simple" or _rounds_sizes(call))
    dilated = any(d != 1 for d in call["dilations"] or ())
    return call.op in ("MaxPool", "AveragePool") and bool(call["ceil_mode"]) and call.outputs == 1 and not dilated


def _rounds_sizes(call: OpCall) -> bool:
    """Return whether the sizes of a Resize by scales depend on the precision of their product: see scaled."""
    scales = call.input(2)
    if scales is None:
        return False
    shape, axes = call.inputs[0].shape, call["axes"] or range(len(call.inputs[0].shape))
    pairs = [(shape[a], float(f)) for a, f in zip(axes, np.asarray(scales).reshape(-1))]
    return any(scaled(n, f) != math.floor(n * f) for n, f in pairs)


def fields_of(versions: list[Any]) -> dict[str, Field]:
    """Return a field for every attribute that an operator has in any version; defaults depend on the version."""
    kinds = {"INT": "int64", "INTS": "int64", "FLOAT": "float", "FLOATS": "float", "STRING": "string"}
    fields: dict[str, Field] = {}
    for one in versions:
        for name, declared in one.attributes.items():
            word = declared.type.name
            same = name not in fields or fields[name].kind == kinds.get(word, "any")
            kind = kinds.get(word, "any") if same else "any"
            fields[name] = Field(0, kind, None, word.endswith("S") and kind != "any", declared.description.strip())
    return fields
