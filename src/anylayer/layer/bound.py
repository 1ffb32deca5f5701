"""Bind a node to its layer class for one set of input shapes: what the engines call."""

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
    Stopped,
    at,
    call_contained,
    kind_and_text,
    nearest,
    need,
    wording,
)
from anylayer.layer.exclusive import exclusive
from anylayer.layer.opencv import METHODS, Made, make, opencv_params, require_numbers
from anylayer.layer.order import Order
from anylayer.layer.registry import Definition
from anylayer.layer.state import copied
from anylayer.network import Node, Shape, TensorType

if TYPE_CHECKING:
    from anylayer import tracing


_RULES = (
    (r"could not be broadcast|cannot be broadcast|could not broadcast", "they do not broadcast together"),
    (r"cannot reshape array of size", "their elements do not fit into the shape that the layer gives"),
    (r"concatenation axis must match", "the sizes beside the axis that is joined differ"),
    (r"matmul: Input operand", "their inner sizes differ"),
    (r"axes don't match array", "their rank is not that of the order of axes"),
)
"""What NumPy says of arrays that do not fit -> the rule."""


def call_user(function: Any, *args: Any) -> Any:
    """tracing.call_user, loaded with the tracer when the first layer is called."""
    from anylayer import tracing

    return tracing.call_user(function, *args)


def habits(cls: Any) -> tracing.Habits:
    """tracing.habits, loaded with the tracer when the first class of a user is bound."""
    from anylayer import tracing

    return tracing.habits(cls)


_UNFORESEEN = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)


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


class Bound:
    """A node with an instance of its class. Calling it with one array an input gives a list, one an output.

    Arrays may be NumPy's or traced; an output of another dtype than `dtype` (when given) is cast to it.
    `notes` and `unfilled` are complete after a call. `writes` says that the class writes to its inputs, or may do
    so although they are read-only, and so is given copies. `errors` is what np.errstate is set to: "ignore",
    unless the class listens to warnings. `called` says that a call in NumPy has succeeded. A user's class is
    called by one thread at a time: whoever calls `raw` holds `turn`.
    """

    def __init__(
        self,
        node: Node,
        definition: Definition,
        types: Sequence[TensorType],
        dialect: str | None = None,
        dtype: np.dtype[Any] | None = None,
        made: Made | None = None,
    ) -> None:
        self.node, self.definition, self.types, self.dtype = node, definition, tuple(types), dtype
        self._dialect = dialect
        self.declared: list[Shape] | None = None
        self.order: Order | None = None
        told = None if definition.built_in or definition.native_only else habits(definition.cls)
        self.writes = told is not None and told.writes
        self.errors: Literal["warn", "ignore"] = "warn" if told is not None and told.handles_warnings else "ignore"
        self.called = False
        self.turn: Any = nullcontext() if definition.built_in else exclusive(definition.cls)
        self._notes: list[str] = []
        self._admitted: set[int] = set()
        with at(node.place), self.turn:
            if definition.typed:
                cls: Any = definition.cls
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

    def _prepare(self, instance: Any, dialect: str | None) -> None:
        """Give a typed layer its params; what a built-in one's rules do not foresee is refused with them."""
        if not self.definition.built_in:
            blobs = [b.copy() for b in self.node.blobs] if self.writes else self.node.blobs
            self.user(instance.prepare, replace(self.node, blobs=blobs), dialect, name="setup")
            return
        try:
            instance.prepare(self.node, dialect)
        except _UNFORESEEN as error:
            raise LayerError(
                f"does not take the parameters {self.node.params} ({type(error).__name__}: {error})"
            ) from error

    def renewer(self) -> Callable[[], Bound]:
        """Return a function that gives Bounds of the state this one has now. The class is not called for them
        where its instance can be copied; otherwise it is made again."""
        kept = None if self.definition.typed else copied(self.instance)

        def renew() -> Bound:
            instance = None if kept is None else copied(kept)
            made = None if instance is None else Made(instance, self.declared, self.order, list(self._notes))
            return Bound(self.node, self.definition, self.types, self._dialect, self.dtype, made)

        return renew

    def user(self, function: Any, *args: Any, name: str = "") -> Any:
        """Call the user's code; an exception in it becomes a LayerError that names its line."""
        try:
            return call_contained(function, *args)
        except AnyLayerError:
            raise
        except Exception as error:
            raise self.raised(error, name or getattr(function, "__name__", type(function).__name__)) from error

    def raised(self, error: BaseException, name: str = "forward") -> LayerError:
        """Return the LayerError that says what a method of the user's class raised, and where."""
        kind, text = kind_and_text(error)
        line = user_line(error, self.definition.origin)
        if isinstance(error, TypeError) and not line:  # the call itself does not fit
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
        return [*self._notes, *(self.instance.notes if self.definition.typed else ())]

    @property
    def unfilled(self) -> list[str]:
        return list(self.instance.unfilled) if self.definition.typed else []

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        with at(self.node.place), self.turn:
            if self.definition.typed:
                self._admit(len(inputs))
            result = self._built_in(inputs) if self.definition.built_in else self.raw(inputs)
            return self._outputs(result)

    def raw(self, inputs: Sequence[Any], call: Callable[..., Any] = call_user) -> Any:
        """Call a user's forward with `call`; give what it gives. Whoever calls this holds `turn` and answers for
        exceptions."""
        if self.definition.typed:
            return call(self.instance.forward, *inputs)
        if self.order is None:
            return call(self.instance.forward, list(inputs))
        return self.order.taken(call(self.instance.forward, self.order.given(inputs)), inputs)

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
            shapes = ", ".join("none" if x is None else str(tuple(x.shape)) for x in inputs) or "none"
            rule = next((rule for words, rule in _RULES if re.search(words, str(error))), None)
            why = f": {rule}" if rule else f" ({type(error).__name__}: {error})"
            raise LayerError(f"does not take inputs of shape {shapes}{why}") from error

    def _checked(self, outputs: list[Any]) -> list[Any]:
        wanted = len(self.node.outputs)
        need(len(outputs) == wanted, f"forward gives {len(outputs)} outputs, the node has {wanted}")
        for i, output in enumerate(outputs):
            if not self.definition.built_in:
                require_numbers(output, i)
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


def _takes(forward: Any, given: int) -> None:
    """Refuse a number of inputs that `forward` has no places for."""
    try:
        places = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):
        raise LayerError(f"forward must be a method, got {type(forward).__name__}") from None
    named = [p for p in places if p.kind != p.VAR_POSITIONAL]
    least, most = sum(p.default is p.empty for p in named), len(named)
    open_end = most < len(places)
    count = f"{least} or more" if open_end else f"{least}" if least == most else f"{least} to {most}"
    need(
        least <= given and (open_end or given <= most),
        f"takes {count} {'input' if count == '1' else 'inputs'}, got {given}",
    )


def user_line(error: BaseException, file: str) -> str:
    """ " (file:line)" for the deepest line of `file` that an exception passed through, or nothing."""
    line = None
    trace = error.__traceback__
    there = os.path.abspath(file)  # noqa: PTH100 (resolve would follow links)
    while trace is not None:
        if os.path.abspath(trace.tb_frame.f_code.co_filename) == there:  # noqa: PTH100
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
