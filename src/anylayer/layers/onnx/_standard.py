"""The layer class of ONNX's operators: their outputs for arrays, and the operators that record them."""

from __future__ import annotations

from typing import Any, ClassVar

from anylayer.errors import LayerError, given, nearest, need, plural
from anylayer.layer import Field, Layer, Message
from anylayer.layers.onnx import (  # noqa: F401 (meanings are registered when their files are loaded)
    _arithmetic,
    _movement,
    _quantized,
    _windows,
)
from anylayer.layers.onnx._call import MEANINGS, NoMeaning, OpCall, is_plain
from anylayer.layers.onnx._old import upgrade
from anylayer.layers.onnx._record import at_least, attributes, default_value, results, spell_out
from anylayer.libraries.onnx import defs, latest, reference, schema
from anylayer.network import Array, Node


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
        spell_out(result)
        return result

    def forward(self, *inputs: Array) -> list[Array]:
        call = self.call(list(inputs))
        outputs = results(call, self.compute)
        listed = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        return call.restore(listed)[: self.outputs]

    def compute(self, call: OpCall) -> Any:
        """Return the output or the outputs for arrays."""
        if call.op in MEANINGS and all(x is None or is_plain(x.dtype) for x in call.inputs):
            try:
                return MEANINGS[call.op](call, *call.inputs)
            except NoMeaning:
                pass
        return self._reference(call, *call.inputs)

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
