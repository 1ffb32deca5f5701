"""Bind a node to its layer class: make an instance for one set of input types, and call its forward."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from anylayer.errors import (
    AnyLayerError,
    DialectError,
    LayerError,
    ShapeError,
    Stopped,
    at,
    call_contained,
    kind_and_text,
    nearest,
    need,
    plural,
    wording,
)
from anylayer.graph.symbolic import plain
from anylayer.layer.contract import Layer
from anylayer.layer.exclusive import exclusive
from anylayer.layer.opencv import METHODS, Made, make, opencv_params, require_numbers
from anylayer.layer.order import Order
from anylayer.layer.registry import Definition
from anylayer.layer.state import copied
from anylayer.network import DType, Function, Node, Shape, TensorType

if TYPE_CHECKING:
    from anylayer import tracing


_RULES = (
    (r"could not be broadcast|cannot be broadcast|could not broadcast", "they do not broadcast together"),
    (r"cannot reshape array of size", "they cannot be reshaped to the shape of the output"),
    (r"concatenation axis must match", "their sizes differ in an axis that is not concatenated"),
    (r"matmul: Input operand", "their inner sizes differ"),
    (r"axes don't match array", "their rank is not the length of the permutation"),
)
"""Patterns of NumPy's messages about shapes, each with the rule that is broken."""


def call_user(function: Any, *args: Any) -> Any:
    """Call tracing.call_user. The tracer is imported when the first layer is called."""
    from anylayer import tracing

    return tracing.call_user(function, *args)


def code_traits(cls: Any) -> tracing.CodeTraits:
    """Call tracing.code_traits. The tracer is imported when the first class of a user is bound."""
    from anylayer import tracing

    return tracing.code_traits(cls)


_FLOAT = np.dtype(np.float32)


def choose(definitions: Sequence[Definition], node: Node, dialect: str | None) -> Definition:
    """Return the class that a node means, of those that share its type.

    The dialect decides where it is given, and otherwise the fields that the file writes. Raises DialectError,
    which lists the candidates, where several classes fit or none does.
    """
    if len(definitions) == 1:
        return definitions[0]
    named = [d for d in definitions if dialect is not None and dialect in d.dialects]
    if named:
        return named[0]
    fitting = [d for d in definitions if _fits(d, node)]
    fitting = [d for d in fitting if d.layer_class.message in node.params] or fitting
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        _refuse_unknown_fields(definitions, node)
    shown = fitting or definitions
    candidates = "; ".join(f"{' or '.join(d.dialects) or 'any other'}: {d.summary.rstrip('.')}" for d in shown)
    what = "can mean" if fitting else "fits none of"
    option = wording("dialect=...", "--dialect")
    file = re.match(r"(.*?)(:\d+)?: layer '", node.place)
    name = file[1] if file else "MODEL"
    find = wording(
        f"anylayer.identify({name!r}, inputs=..., expect=...)",
        f"anylayer identify {name} [WEIGHTS] -i in.npz --expect out.npz",
    )
    rule = f"'{node.type}' {what} {len(shown)} things, give {option}: {candidates}"
    raise DialectError(f"{rule}. Inputs and outputs of the original program tell which: {find}")


def _refuse_unknown_fields(definitions: Sequence[Definition], node: Node) -> None:
    """Raise LayerError for a field that no class of the type declares."""
    for message, values in node.params.items():
        classes = [d.layer_class for d in definitions]
        names = [name for cls in classes if cls.message == message for name in cls.fields]
        for name in values if names and isinstance(values, Mapping) else ():
            line = node.lines.get(f"{message}.{name}")
            where = f" (line {line})" if line else ""
            hint = nearest(name, names) or f"; it has: {', '.join(dict.fromkeys(names))}"
            need(name in names, f"{message} has no field '{name}'{where}{hint}")


def _fits(definition: Definition, node: Node) -> bool:
    cls = definition.layer_class
    values = node.params.get(cls.message, {}) if cls.message else {}
    return isinstance(values, Mapping) and bool(cls.fits(values, len(node.inputs), len(node.outputs)))


class Bound:
    """A node with an instance of its class. It is called with one array per input, and returns a list of outputs.

    The arrays are NumPy's or traced. An output of another dtype than `dtype` is cast to it, if `dtype` is given.
    `notes` and `unfilled` are complete after a call. `writes` says that the class writes to its inputs, or may be
    able to write to read-only ones, so it must be given copies. `errors` is the setting of np.errstate for calls:
    "ignore" unless the class uses NumPy's warnings. `called` says that a call in NumPy has succeeded. `turn` is
    held while a user's class is called, so that one thread at a time is in it; whoever calls `raw` must hold it.
    """

    def __init__(
        self,
        node: Node,
        definition: Definition,
        types: Sequence[TensorType],
        dialect: str | None = None,
        dtype: DType | None = None,
        made: Made | None = None,
    ) -> None:
        self.node, self.definition, self.types = node, definition, tuple(types)
        self.dtype = None if definition.is_function else dtype
        self.dialect = dialect
        self.declared: list[Shape] | None = None
        self.order: Order | None = None
        traits = None if definition.built_in or definition.native_only else code_traits(definition.cls)
        self.writes = traits is not None and traits.writes
        self.errors: Literal["warn", "ignore"] = (
            "warn" if traits is not None and traits.handles_warnings else "ignore"
        )
        self.called = False
        self.turn: Any = nullcontext() if definition.built_in else exclusive(definition.cls)
        self._notes: list[str] = []
        self._input_counts: set[int] = set()
        with at(node.place), self.turn:
            if definition.typed:
                cls = definition.layer_class
                self.instance: Any = cls.__new__(cls)
                self._prepare(self.instance, dialect)
            elif definition.kernel is not None and definition.native_only:
                self.instance = definition.kernel(node, types, dtype)
                self.declared = [t.shape for t in self.instance.outputs]
                self._notes += self.instance.notes
            else:
                made = made or make(self.user, node, definition, types)
                self.instance, self.declared, self.order = made.instance, made.declared, made.order
                self._notes += made.notes

    def _prepare(self, instance: Layer, dialect: str | None) -> None:
        """Give an instance of a typed class its params. Raise LayerError for those that it does not support."""
        if not self.definition.built_in:
            blobs = [b.copy() for b in self.node.blobs] if self.writes else self.node.blobs
            self.user(instance.prepare, replace(self.node, blobs=blobs), dialect, name="setup")
            return
        try:
            instance.prepare(self.node, dialect)
        except AnyLayerError:
            raise
        except Exception as error:
            raise LayerError(
                f"does not take the parameters {self.node.params} ({type(error).__name__}: {error})"
            ) from error

    def renewer(self) -> Callable[[], Bound]:
        """Return a function that makes Bounds with the state that this one has now.

        The instance is copied where that is possible; otherwise the class is called again.
        """
        snapshot = None if self.definition.typed else copied(self.instance)

        def renew() -> Bound:
            instance = None if snapshot is None else copied(snapshot)
            fresh = None if instance is None else Made(instance, self.declared, self.order, list(self._notes))
            return Bound(self.node, self.definition, self.types, self.dialect, self.dtype, fresh)

        return renew

    def user(self, function: Any, *args: Any, name: str = "") -> Any:
        """Call the user's code. An exception in it becomes a LayerError that names the line."""
        try:
            return call_contained(function, *args)
        except AnyLayerError:
            raise
        except Exception as error:
            raise self.raised(error, name or getattr(function, "__name__", type(function).__name__)) from error

    def raised(self, error: BaseException, name: str = "forward") -> LayerError:
        """Return the LayerError for an exception in a method of the user's class."""
        kind, text = kind_and_text(error)
        line = user_line(error, self.definition.origin)
        if isinstance(error, TypeError) and not line:  # the signature does not fit the call
            line = f". Its methods are {METHODS}"
        if isinstance(error, Stopped):
            return LayerError(f"{name} ends the program ({kind}: {text}){line}. Raise an exception instead")
        params = opencv_params(self.node.params, self.node.defaults)
        if (
            isinstance(error, KeyError)
            and not self.definition.typed
            and error.args
            and error.args[0] not in params
        ):
            line += f"; the params of this node are: {', '.join(map(str, params)) or 'none'}"
        return LayerError(f"{name} raises {kind}: {text}{line}")

    @property
    def notes(self) -> list[str]:
        """What the user should know about how this node was read."""
        return [*self._notes, *(self.instance.notes if self.definition.typed else ())]

    @property
    def unfilled(self) -> list[str]:
        """The weights that the layer asks for and that neither a file nor a filler gives."""
        return list(self.instance.unfilled) if self.definition.typed else []

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        with at(self.node.place), self.turn:
            if self.definition.typed:
                self._need_input_count(len(inputs))
            result = self._built_in(inputs) if self.definition.built_in else self.raw(inputs)
            return self._outputs(result)

    def raw(self, inputs: Sequence[Any], call: Function = call_user) -> Any:
        """Call a user's forward with `call`, and return its result unchecked.

        The caller holds `turn` and handles exceptions.
        """
        if self.definition.typed:
            return call(self.instance.forward, *inputs)
        if self.order is None:
            return call(self.instance.forward, list(inputs))
        return self.order.to_file(call(self.instance.forward, self.order.to_class(inputs)), inputs)

    def outputs(self, result: Any) -> list[Any]:
        """Return the result of forward as a list of one array per output, checked and cast."""
        with at(self.node.place):
            return self._outputs(result)

    def _outputs(self, result: Any) -> list[Any]:
        if self.definition.typed:
            outputs = list(result) if isinstance(result, (tuple, list)) else [result]
            self.instance.check_blobs()
            return self._checked(outputs)
        kind = type(result).__name__
        array = isinstance(result, np.ndarray)
        need(
            isinstance(result, (tuple, list)),
            f"forward must return a list of arrays, got {'an array: return [y]' if array else kind}",
        )
        return self._checked(list(result))

    def _need_input_count(self, count: int) -> None:
        """Raise LayerError where forward does not take this number of inputs."""
        if count not in self._input_counts:
            _need_parameters(self.instance.forward, count)
            self._input_counts.add(count)

    def _built_in(self, inputs: Sequence[Any]) -> Any:
        """Call a built-in layer's forward. Raise LayerError, with the shapes, for inputs it does not support."""
        try:
            return call_user(self.instance.forward, *inputs)
        except AnyLayerError:
            raise
        except Exception as error:
            shapes = ", ".join("none" if x is None else str(tuple(x.shape)) for x in inputs) or "none"
            rule = next((rule for words, rule in _RULES if re.search(words, str(error))), None)
            why = f": {rule}" if rule else f" ({type(error).__name__}: {error})"
            kind = ShapeError if isinstance(error, (ValueError, IndexError)) else LayerError
            raise kind(f"does not take inputs of shape {shapes}{why}") from error

    def _checked(self, outputs: list[Any]) -> list[Any]:
        count = len(self.node.outputs)
        need(len(outputs) == count, f"forward returns {plural(len(outputs), 'output')}, the node has {count}")
        for i, output in enumerate(outputs):
            if not self.definition.built_in:
                require_numbers(output, i)
            elif getattr(output, "dtype", _FLOAT).kind in "OSU":
                raise LayerError(f"output {i} has values that are not numbers")
            shape = None if self.declared is None else self.declared[i]
            if shape is not None and plain(output.shape) != shape:  # a symbolic size as its number
                raise LayerError(f"output {i} has shape {tuple(output.shape)}, getMemoryShapes declares {shape}")
            if self.dtype is not None and output.dtype != self.dtype:
                if not self.definition.typed:
                    text = f"output {i} is {output.dtype}, cast to {self.dtype}: write .astype(np.{self.dtype})"
                    if text not in self._notes:
                        self._notes.append(text)
                outputs[i] = output.astype(self.dtype)
        return outputs


def _need_parameters(forward: Any, given: int) -> None:
    """Raise LayerError where `forward` does not take this number of positional arguments."""
    try:
        parameters = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):
        raise LayerError(f"forward must be a method, got {type(forward).__name__}") from None
    named = [p for p in parameters if p.kind != p.VAR_POSITIONAL]
    low, high = sum(p.default is p.empty for p in named), len(named)
    any_number = high < len(parameters)
    count = f"{low} or more" if any_number else f"{low}" if low == high else f"{low} to {high}"
    need(
        low <= given and (any_number or given <= high),
        f"takes {count} {'input' if count == '1' else 'inputs'}, got {given}",
    )


def user_line(error: BaseException, file: str) -> str:
    """Return " (file:line)" for the deepest line of `file` in an exception's traceback; "" where there is none."""
    line = None
    trace = error.__traceback__
    path = os.path.abspath(file)  # noqa: PTH100 (resolve would follow links)
    while trace is not None:
        if os.path.abspath(trace.tb_frame.f_code.co_filename) == path:  # noqa: PTH100 (as above)
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" ({file}:{line})" if line else ""


def bind(
    node: Node,
    definitions: Sequence[Definition],
    types: Sequence[TensorType],
    dialect: str | None = None,
    dtype: DType | None = None,
) -> Bound:
    """Choose the node's class among `definitions`, and make an instance of it for these input types.

    dialect: the fork of Caffe that the file was written for, if it is known. dtype: the dtype to which outputs are
    cast, if the format has only one. Raises DialectError where the class is ambiguous, and LayerError where a rule
    of the layer is broken.
    """
    with at(node.place):
        definition = choose(definitions, node, dialect)
    return Bound(node, definition, types, dialect, dtype)


def shapes_only(known: Sequence[Definition]) -> Definition | None:
    """Return a user's class that has getMemoryShapes and no forward, or None."""
    plain = (d for d in known if not d.typed and not d.native_only and not d.is_code)
    return next((d for d in plain if not hasattr(d.cls, "forward")), None)


def stated_types(
    shapes: Definition, node: Node, types: Sequence[TensorType], dtype: DType | None = None
) -> list[TensorType]:
    """Return the types of a node's outputs from a class with getMemoryShapes, in the inputs' float dtype."""
    shapes_of_outputs = Bound(node, shapes, types, dtype=dtype).declared or ()
    base = next((t.dtype for t in types if t.dtype.kind == "f"), np.dtype(np.float32))
    return [TensorType(shape, dtype or base) for shape in shapes_of_outputs]
