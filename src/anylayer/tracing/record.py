"""Recording: `record` appends an ONNX operator to the graph, `trace` runs a function and returns its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import _core

from anylayer import tracing
from anylayer.errors import AnyLayerError, TraceError, call_contained
from anylayer.graph.ir import Graph, Value
from anylayer.graph.place import refusal, refused
from anylayer.graph.sizes import is_static
from anylayer.graph.symbolic import is_empty, plain
from anylayer.network import Function, TensorType
from anylayer.tracing.array import TracedArray, selected
from anylayer.tracing.decisions import explore, guarded_index, without_branches
from anylayer.tracing.python_numbers import PythonNumber
from anylayer.tracing.size_arithmetic import computed_sizes, held

if TYPE_CHECKING:
    from anylayer.tracing.substitution import Counterparts

current_graph: ContextVar[Graph | None] = ContextVar("current_graph", default=None)
"""The graph of the running trace."""

counterparts: ContextVar[Counterparts | None] = ContextVar("counterparts", default=None)
"""The copies of the user's functions that are called instead of them, in a second attempt: see substitution."""

errstate: Callable[[], Any] = _core.umath._extobj_contextvar.get
"""Return the current state of NumPy's error handling, as one object."""


def running_graph() -> Graph:
    """Return the graph of the running trace. Raises TraceError if there is none."""
    graph = current_graph.get()
    if graph is None:
        raise refusal(
            "a traced array is used outside the call that it was made for; do not keep arrays between two calls"
        )
    return graph


def value_of(x: Any) -> Value:
    """Return the value of an array in the graph of the running trace."""
    return x._value if type(x) is TracedArray else running_graph().constant(x)


def graph_of(inputs: Sequence[Any]) -> Graph | None:
    """Return the graph of the traced arrays among `inputs`, or None if there are none.

    Raises TraceError if they belong to two traces.
    """
    graph = None
    for x in inputs:
        if type(x) is TracedArray:
            _take_constant(x)
            if graph is None:
                graph = x._graph
            elif x._graph is not graph:
                raise refusal("a traced array of an earlier call is used; do not keep arrays between two calls")
    return graph


def _take_constant(x: TracedArray) -> None:
    """Make a constant array that was created in an earlier call one of the running trace."""
    running = current_graph.get()
    if x._graph is not running and running is not None and x._const() is not None:
        x._graph = running


def record_many(
    op: str, inputs: Sequence[Any], types: Sequence[tuple[Any, Any]], /, **attrs: Any
) -> list[TracedArray]:
    """Append operator `op`, whose outputs have the given (shape, dtype), and return the outputs.

    An input is a traced array, a NumPy array (which becomes a constant) or None (absent). At least one must be
    traced. `attrs` are the attributes of the operator; those that are None are left out.
    """
    graph = graph_of(inputs)
    if graph is None:
        raise TraceError(f"{op} is recorded without a traced input")
    if graph.errstate is not None and errstate() is not graph.errstate:
        handling = np.geterr()
        if any(how in ("raise", "call", "log") for how in handling.values()):
            raise tracing.causes.errstate_refusal(handling)
    inputs = guarded_index(op, inputs, graph)
    sizes = computed_sizes(graph, op, inputs, types, attrs)
    if sizes is not None:
        return [sizes]
    empty = [np.zeros(plain(s), d) if is_static(s) and is_empty(s) else None for s, d in types]
    if all(e is not None for e in empty):  # no elements, so there is nothing to compute
        return [TracedArray(graph, e) for e in empty if e is not None]
    values: list[Value | None] = []
    for x in inputs:
        values.append(None if x is None else x._value if type(x) is TracedArray else graph.constant(x))
    return [TracedArray(graph, v) for v in graph.emit(op, values, types, attrs)]


def record(op: str, inputs: Sequence[Any], shape: Sequence[Any], dtype: Any, /, **attrs: Any) -> TracedArray:
    """Append an operator with one output and return it; see `record_many`."""
    return record_many(op, inputs, [(shape, dtype)], **attrs)[0]


def trace(
    function: Callable[[list[Any]], Sequence[Any]],
    types: Sequence[TensorType],
    *,
    prefix: str = "",
    scope: str = "",
    limit: int | None = None,
    strict: bool = False,
    branches: bool = True,
    after_run: Callable[[], None] = lambda: None,
) -> Graph:
    """Call `function` with a list of traced arrays of the given types, and return the graph of its outputs.

    `prefix` starts the name of each value, and `scope` names the node that the operators belong to. `limit` is the
    number of operators above which recording is refused. If `strict`, a traced array has no text, because the
    function could base a decision on it. With `branches`, the function is called once for each path that the
    values of its arrays can choose: see `explore`. `after_run` is called after each call. Raises TraceError for
    anything that cannot be recorded, even if the function catches that error.
    """
    graph = Graph(prefix, scope)
    graph.strict = strict
    if limit is not None:
        graph.limit = limit
    inputs = [graph.input(f"{prefix}input_{i}", t.shape, t.dtype) for i, t in enumerate(types)]
    for v, t in zip(inputs, types):
        v.elements = t.elements
    remembered: list[TraceError] = []
    tokens = refused.set(remembered), current_graph.set(graph)
    try:
        with np.errstate(all="ignore"):
            graph.errstate = errstate()
            graph.outputs = (explore if branches else without_branches)(
                graph, lambda: _run(function, graph.twin(), inputs, after_run)
            )
        graph.check_constants()
        graph.drop_dead()
    except Exception as error:
        if remembered and not (isinstance(error, AnyLayerError) and error is remembered[0]):
            raise remembered[0] from error
        raise
    finally:
        refused.reset(tokens[0])
        current_graph.reset(tokens[1])
    if remembered:
        raise remembered[0]
    return graph


def _run(
    function: Callable[[list[Any]], Sequence[Any]],
    graph: Graph,
    inputs: Sequence[Value],
    after_run: Callable[[], None],
) -> list[Value]:
    """Call a function once with traced arrays of these inputs, and return the values of its outputs."""
    arrays = []
    for i, value in enumerate(inputs):
        arrays.append(TracedArray(graph, value))
        arrays[-1]._owner = f"input {i}"
    token = current_graph.set(graph)
    try:
        outputs = [_output(graph, o) for o in function(list(arrays))]
        graph.need_outside(outputs)
    finally:
        current_graph.reset(token)
    after_run()
    return outputs


def _output(graph: Graph, output: Any) -> Value:
    output = selected(output)
    output = output.array if type(output) is PythonNumber else output
    if type(output) is TracedArray:
        _take_constant(output)
        if output._graph is not graph:
            raise refusal("a traced array of an earlier call is returned; do not keep arrays between two calls")
        sizes = held(output)
        return output._value if sizes is None else graph.constant(sizes)
    array = np.asarray(output)
    if array.dtype.kind not in "biuf":
        raise refusal(f"forward returns {type(output).__name__}, which is not an array of numbers; return arrays")
    return graph.constant(array)


class SizeDependsOnData(TraceError):
    """A size depends on data, and the trace has no symbols for such sizes."""


def substituted(function: Function) -> Function:
    """Return the copy of one of our functions that keeps symbolic sizes, or the function itself outside a symbolic
    trace."""
    active = counterparts.get()
    return function if active is None or not active.symbolic else active.of(function)


def call_user(function: Function, *args: Any) -> Any:
    """Call a user's function, or in a second attempt its counterpart. Raises Stopped if it ends the program."""
    active = counterparts.get()
    return call_contained(function, *args) if active is None else active.call(function, args)
