"""Bind a node to its layer class for one set of input shapes: what the engines call."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.errors import AnyLayerError, DialectError, LayerError, at, nearest, need, wording
from anylayer.layer.registry import Definition
from anylayer.network import Flag, Node, Shape, TensorType, Word


def call_user(function: Any, *args: Any) -> Any:
    """tracing.call_user, loaded with the tracer when the first layer is called."""
    from anylayer import tracing

    return tracing.call_user(function, *args)


_UNFORESEEN = (ArithmeticError, LookupError, MemoryError, TypeError, ValueError)


def choose(definitions: Sequence[Definition], node: Node, dialect: str | None) -> Definition:
    """The class a node means: by the dialect, else told by its fields, else refused with the candidates."""
    if len(definitions) == 1:
        return definitions[0]
    named = [d for d in definitions if dialect is not None and dialect in d.dialects]
    if named:
        return named[0]
    fitting = [d for d in definitions if _fits(d, node)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        _refuse_unknown_fields(definitions, node)
    shown = fitting or definitions
    candidates = "; ".join(f"{' or '.join(d.dialects) or 'any other'}: {d.summary}" for d in shown)
    what = "can mean" if fitting else "fits none of"
    option = wording("dialect=...", "--dialect")
    need(False, f"'{node.type}' {what} {len(shown)} things, give {option}: {candidates}", DialectError)
    raise AssertionError


def _refuse_unknown_fields(definitions: Sequence[Definition], node: Node) -> None:
    """Refuse a field that none of a type's classes declares: it is misspelt."""
    for message, values in node.params.items():
        classes: list[Any] = [d.cls for d in definitions]
        known = [name for cls in classes if cls.message == message for name in cls.fields]
        for name in values if known and isinstance(values, Mapping) else ():
            line = node.lines.get(f"{message}.{name}")
            where = f" (line {line})" if line else ""
            hint = nearest(name, known) or f"; it has: {', '.join(dict.fromkeys(known))}"
            need(name in known, f"{message} has no field '{name}'{where}{hint}")


def _fits(definition: Definition, node: Node) -> bool:
    cls: Any = definition.cls
    values = node.params.get(cls.message, {}) if cls.message else {}
    return isinstance(values, Mapping) and bool(cls.fits(values, len(node.inputs), len(node.outputs)))


def opencv_params(params: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Params as OpenCV hands them to a Python layer: one flat dict (with signs and lists kept, unlike OpenCV).

    Every field of every message stands under its own name; where two messages have the same field, the outer
    or earlier one keeps the name.
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
                    flat.setdefault(name, tuple(map(_plain, value)))
            else:
                flat.setdefault(name, _plain(value))
        for message in nested:
            put(message)

    put(params)
    if defaults:
        put(defaults)
    return flat


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Word) and not isinstance(value, Flag) else value


_METHODS = "__init__(self, params, blobs), getMemoryShapes(self, inputs), forward(self, inputs)"


class Bound:
    """A node with an instance of its class. Calling it with one array an input gives a list, one an output.

    Arrays may be NumPy's or traced; an output of another dtype than `dtype` (when given) is cast to it.
    `notes` and `unfilled` are complete after a call. `writes` says that the class was found to write to its
    inputs, and so must be given copies.
    """

    def __init__(
        self,
        node: Node,
        definition: Definition,
        types: Sequence[TensorType],
        dialect: str | None = None,
        dtype: np.dtype[Any] | None = None,
    ) -> None:
        self.node, self.definition, self.types, self.dtype = node, definition, tuple(types), dtype
        self.declared: list[Shape] | None = None
        self.writes = False
        self._notes: list[str] = []
        self._admitted: set[int] = set()
        with at(node.place):
            if definition.typed:
                cls: Any = definition.cls
                instance = cls.__new__(cls)
                self._prepare(instance, dialect)
            else:
                instance = self._opencv()
            self.instance: Any = instance

    def _prepare(self, instance: Any, dialect: str | None) -> None:
        """Give a typed layer its params; what a built-in one's rules do not foresee is refused with them."""
        try:
            instance.prepare(self.node, dialect)
        except _UNFORESEEN as error:
            if not self.definition.built_in:
                raise
            raise LayerError(
                f"does not take the parameters {self.node.params} ({type(error).__name__}: {error})"
            ) from error

    def _opencv(self) -> Any:
        node, definition = self.node, self.definition
        blobs = tuple(np.ascontiguousarray(b, np.float32 if b.dtype.kind == "f" else b.dtype) for b in node.blobs)
        instance = self._user(definition.cls, opencv_params(node.params, node.defaults), blobs)
        need(hasattr(instance, "forward"), "the class has no forward(inputs)")
        if node.layout == "NHWC" and getattr(definition.cls, "layout", "") == "NCHW":
            instance = _Turned(instance)
        if hasattr(instance, "getMemoryShapes"):
            shapes = self._user(instance.getMemoryShapes, [list(t.shape) for t in self.types])
            self.declared = _shapes(shapes)
            need(
                len(self.declared) == len(node.outputs),
                f"getMemoryShapes gives {len(self.declared)} shapes, the node has {len(node.outputs)} outputs",
            )
        return instance

    def _user(self, function: Any, *args: Any) -> Any:
        """Call the user's code; an exception in it becomes a LayerError that names its line."""
        try:
            return function(*args)
        except AnyLayerError:
            raise
        except Exception as error:
            name = getattr(function, "__name__", type(function).__name__)
            line = user_line(error, self.definition.origin)
            if isinstance(error, TypeError) and not line:  # the call itself does not fit
                line = f". Its methods are {_METHODS}"
            raise LayerError(f"{name} raises {type(error).__name__}: {error}{line}") from error

    @property
    def notes(self) -> list[str]:
        return [*self._notes, *(self.instance.notes if self.definition.typed else ())]

    @property
    def unfilled(self) -> list[str]:
        return list(self.instance.unfilled) if self.definition.typed else []

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        with at(self.node.place):
            if not self.definition.typed:
                result = call_user(self.instance.forward, list(inputs))
            elif self.definition.built_in:
                self._admit(len(inputs))
                result = self._built_in(inputs)
            else:
                self._admit(len(inputs))
                result = call_user(self.instance.forward, *inputs)
            return self._outputs(result)

    def outputs(self, result: Any) -> list[Any]:
        """What forward gave as a list of one array an output, checked and cast."""
        with at(self.node.place):
            return self._outputs(result)

    def _outputs(self, result: Any) -> list[Any]:
        if self.definition.typed:
            outputs = list(result) if isinstance(result, (tuple, list)) else [result]
            self.instance.check_blobs()
            return self._checked(outputs)
        need(
            isinstance(result, (tuple, list)),
            f"forward must return a list of arrays, got {type(result).__name__}",
        )
        return self._checked(list(result))

    def _admit(self, given: int) -> None:
        """Refuse a number of inputs that forward has no places for."""
        if given not in self._admitted:
            _takes(self.instance.forward, given)
            self._admitted.add(given)

    def _built_in(self, inputs: Sequence[Any]) -> Any:
        """A built-in layer's forward; what its rules do not foresee is refused with the shapes it was given."""
        try:
            return call_user(self.instance.forward, *inputs)
        except _UNFORESEEN as error:
            shapes = ", ".join("none" if x is None else str(tuple(x.shape)) for x in inputs)
            raise LayerError(
                f"does not take inputs of shape {shapes} ({type(error).__name__}: {error})"
            ) from error

    def _checked(self, outputs: list[Any]) -> list[Any]:
        wanted = len(self.node.outputs)
        need(len(outputs) == wanted, f"forward gives {len(outputs)} outputs, the node has {wanted}")
        for i, output in enumerate(outputs):
            if not (hasattr(output, "shape") and hasattr(output, "dtype")):
                raise LayerError(f"output {i} of forward is a {type(output).__name__}, not an array")
            shape = None if self.declared is None else self.declared[i]
            if shape is not None and tuple(output.shape) != shape:
                raise LayerError(f"output {i} has shape {tuple(output.shape)}, getMemoryShapes declares {shape}")
            if self.dtype is not None and output.dtype != self.dtype:
                if not self.definition.typed:
                    text = f"output {i} is {output.dtype}, cast to {self.dtype}: write .astype(np.{self.dtype})"
                    if text not in self._notes:
                        self._notes.append(text)
                outputs[i] = output.astype(self.dtype)
        return outputs


class _Turned:
    """An instance of a class with `layout = "NCHW"`: it sees arrays of four axes as OpenCV would hand them to it,
    where the network has channels last."""

    def __init__(self, instance: Any) -> None:
        self._instance = instance
        if hasattr(instance, "getMemoryShapes"):
            self.getMemoryShapes = self._shapes

    def _shapes(self, shapes: Sequence[Sequence[int]]) -> list[list[int]]:
        first = [[s[0], s[3], s[1], s[2]] if len(s) == 4 else list(s) for s in shapes]
        found = [list(s) for s in self._instance.getMemoryShapes(first)]
        return [[s[0], s[2], s[3], s[1]] if len(s) == 4 else s for s in found]

    def forward(self, inputs: Sequence[Any]) -> Any:
        given = [x.transpose(0, 3, 1, 2) if len(x.shape) == 4 else x for x in inputs]
        found = self._instance.forward(given)
        if not isinstance(found, (tuple, list)):
            return found
        return [y.transpose(0, 2, 3, 1) if len(getattr(y, "shape", ())) == 4 else y for y in found]


def _takes(forward: Any, given: int) -> None:
    """Refuse a number of inputs that `forward` has no places for."""
    places = list(inspect.signature(forward).parameters.values())
    named = [p for p in places if p.kind != p.VAR_POSITIONAL]
    least, most = sum(p.default is p.empty for p in named), len(named)
    open_end = most < len(places)
    count = f"{least} or more" if open_end else f"{least}" if least == most else f"{least} to {most}"
    need(
        least <= given and (open_end or given <= most),
        f"takes {count} {'input' if count == '1' else 'inputs'}, got {given}",
    )


def _shapes(shapes: Any) -> list[Shape]:
    try:
        return [tuple(int(d) for d in shape) for shape in shapes]
    except TypeError:
        raise LayerError(f"getMemoryShapes must return a list of shapes, got {shapes!r}") from None


def user_line(error: BaseException, file: str) -> str:
    """ " (file:line)" for the deepest line of `file` that an exception passed through, or nothing."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" ({file}:{line})" if line else ""


def bind(
    node: Node,
    definitions: Sequence[Definition],
    types: Sequence[TensorType],
    dialect: str | None = None,
    dtype: np.dtype[Any] | None = None,
) -> Bound:
    """Choose the node's class among `definitions` and make an instance for these input types.

    Raises DialectError when the class is ambiguous, LayerError when a rule of the layer is broken.
    """
    with at(node.place):
        definition = choose(definitions, node, dialect)
    return Bound(node, definition, types, dialect, dtype)
