"""Trace the nodes of a network in computing order: each becomes a graph, constants, or a host call."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from anylayer import tracing
from anylayer.compile.comparison import Compiler, compare_trace
from anylayer.compile.constants import Constants
from anylayer.compile.limits import (
    MAX_LAYER_OPERATORS,
    MAX_OPERATORS,
    Budget,
    allocated_bytes,
    countable_types,
    graph_memory,
    need_memory,
    size,
)
from anylayer.compile.selections import share_size, trace_with_selections, with_sizes
from anylayer.compile.shared import unshared
from anylayer.errors import (
    AnyLayerError,
    InputError,
    LayerError,
    TraceError,
    UnknownLayers,
    adding_advice,
    at,
    nearest,
    need,
    plural,
    some,
    wording,
)
from anylayer.graph import Dim, Graph, TooManyOperators
from anylayer.graph.guards import name_conditions, traces_symbolically, unguarded
from anylayer.graph.place import Lost
from anylayer.graph.sized import elements_of
from anylayer.graph.symbolic import plain
from anylayer.layer import Bound, Definition, bind
from anylayer.network import ABSENT, Array, Network, Node, TensorType
from anylayer.numerics import normal_noise, uniform_noise
from anylayer.source import TracedNode

Definitions = Mapping[str, Sequence[Definition]]

_MAX_SHAPE_BYTES = 4096
"""A constant integer input of at most this many bytes may decide the shape of an output."""

NO_DEFINITION = LayerError("no definition")
PROGRAM = LayerError("a program inside the file, which is not run")
UNSHAPED = LayerError("input shapes unknown")


def unknown_layers(
    network: Network,
    nodes: Sequence[Node],
    definitions: Definitions,
    known_types: Sequence[str],
    unused: Sequence[str] = (),
) -> None:
    """Raise UnknownLayers where nodes have types without a definition. Its message lists all of these types.

    `known_types` are the built-in types, and `unused` those that the user defines and no node has: both serve as
    suggestions.
    """
    by_type: dict[str, list[Node]] = {}
    programs = []
    for node in nodes:
        known_as = definitions.get(node.type, ())
        if not known_as:
            by_type.setdefault(node.type, []).append(node)
        elif any(d.is_code for d in known_as):
            programs.append(f"'{node.type}' (layer '{node.name}'), a program inside the file")
    if not by_type:
        return
    parts = []
    for type_, places in by_type.items():
        names = some([f"'{n.name}'" for n in places], 5)
        hint = nearest(type_, unused) or nearest(type_, known_types)
        parts.append(f"'{type_}' (layer{'s' if len(places) > 1 else ''} {names}){hint}")
    parts += programs
    count = plural(len(by_type), "unknown layer type")
    listed = f"{count}: {'; '.join(parts)}"
    stop = "" if listed.endswith("?") else "."
    others = f" You define, and no layer has: {', '.join(map(repr, unused))}." if unused else ""
    option = wording("layers=['layers.py']", "-l layers.py")
    remedy = f"To define them: anylayer stub -o layers.py {network.files}, then {option}"
    raise UnknownLayers(f"{listed}{stop}{others} {remedy}", network.source, types=by_type)


def trace_nodes(
    network: Network,
    nodes: Sequence[Node],
    definitions: Definitions,
    inputs: Mapping[str, TensorType | None],
    *,
    lenient: bool = False,
    check: Sequence[Compiler] = (),
    opaque: Container[str] = (),
    quantized: bool = False,
) -> Iterator[TracedNode]:
    """Trace the nodes one after the other, and yield each as soon as it is traced.

    lenient: keep the error of a node in `problem` and go on with the next node; the types that the file declares
    stand for its outputs. check: compilers with which users' layers are compared with their traces, see make_plan.
    opaque: types of layers whose constant outputs do not become constants for the nodes that read them. quantized:
    whether quantized constants stay integers: see Constants.

    Raises the error of the first node that cannot be traced unless `lenient` is set. A user's layer must give the
    shapes that the file declares for its outputs.
    """
    declared = declared_types(network, inputs)
    types: dict[str, TensorType | None] = {**inputs, "": ABSENT}
    constants = Constants(quantized)
    budget = Budget()
    empty: dict[str, Node] = {}
    sizes: dict[str, Dim] = {}
    for node in nodes:
        input_types = [types.get(name) for name in node.inputs]
        traced = TracedNode(node, inputs=input_types, outputs=[None] * len(node.outputs))
        candidates = definitions.get(node.type, ())
        if lenient and any(d.is_code for d in candidates):
            traced.problem = PROGRAM
        elif all(t is not None for t in input_types) and candidates:
            try:
                with at(node.place):
                    _trace_known(traced, network, candidates, constants, check, budget)
                    share_size(traced, sizes)
                    _take_kernel(traced, network)
                    _need_elements(traced, empty)
                    _compare_declared(traced, declared, network.format)
            except AnyLayerError as error:
                traced.problem = _with_explanation(error, network, inputs)
                if not lenient:
                    raise traced.problem from error.__cause__
                traced.problem.with_traceback(None)
        else:
            traced.problem = UNSHAPED if candidates else NO_DEFINITION
        if traced.problem is not None:
            traced.outputs = [declared.get(name) for name in node.outputs]
        types.update(zip(node.outputs, traced.outputs))
        if traced.is_host_call:
            empty.update({n: node for n, t in zip(node.outputs, traced.outputs) if t is not None and 0 in t.shape})
        if node.type not in opaque:
            constants.add(traced)
        yield traced


def _with_explanation(
    error: AnyLayerError, network: Network, inputs: Mapping[str, TensorType | None]
) -> AnyLayerError:
    """Return an error that names the inputs whose rank or sizes are not those in the file."""
    for name, kind in network.inputs.items():
        shape, actual = network.open.get(name) if kind is None else kind.shape, inputs.get(name)
        if shape is None or actual is None:
            continue
        if len(shape) != len(actual.shape):
            sizes = ["N" if d is None else str(d) for d in shape]
            like = wording(f"shapes={{{name!r}: ({', '.join(sizes)})}}", f"--shape {name}={','.join(sizes)}")
            return InputError(
                f"input '{name}' has {plural(len(shape), 'axis')} in the file, but {len(actual.shape)} in the "
                f"shape that is given: give a size for each axis, as in {like}. With "
                f"{plural(len(actual.shape), 'axis')}, {error}"
            )
        if any(type(d) is int and first not in (None, d) for first, d in zip(shape[1:], actual.shape[1:])):
            error.message += f". Input '{name}' has shape {actual.shape}, and {shape} in the file"
    return error


def declared_types(network: Network, inputs: Mapping[str, TensorType | None]) -> Mapping[str, TensorType]:
    """Return the types that the file declares for values, if every input has the type that the file gives it.

    The mapping is empty otherwise: declared types hold for the file's own input types only.
    """
    with unguarded():
        same = all(inputs.get(name) == kind for name, kind in network.inputs.items() if kind is not None)
    return network.declared if same else {}


def _compare_declared(traced: TracedNode, declared: Mapping[str, TensorType], fmt: str) -> None:
    """Refuse a user's layer whose outputs have other shapes than the file declares.

    Shapes in an ONNX file may be out of date, so there a note says it.
    """
    bound = traced.bound
    if bound is None or bound.definition.built_in:
        return
    for i, (name, kind) in enumerate(zip(traced.node.outputs, traced.outputs)):
        declared_type = declared.get(name)
        if declared_type is None or kind is None or not all(isinstance(d, int) for d in kind.shape):
            continue
        if declared_type.shape == kind.shape:
            continue
        text = f"output {i} has shape {kind.shape}, the file declares {declared_type.shape}"
        if fmt == "onnx":
            traced.notes.append(text)
        else:
            raise LayerError(f"{text}. Correct the class in {bound.definition.origin}")


def _need_elements(traced: TracedNode, empty: Mapping[str, Node]) -> None:
    """Raise LayerError for operators recorded for a dynamic size that was 0 because a host call ran on zeros, to
    find its output types. `empty` maps values without elements to the host call that returned them.
    """
    for name in () if traced.is_host_call else traced.node.inputs:
        if name in empty:
            raise LayerError(
                f"reads '{name}', whose size depends on data: layer '{empty[name].name}' runs in Python, and "
                "its output has no elements when its inputs are zeros. Use engine 'numpy' for such a network"
            )


def _trace_known(
    traced: TracedNode,
    network: Network,
    definitions: Sequence[Definition],
    constants: Constants,
    check: Sequence[Compiler],
    budget: Budget,
) -> None:
    """Trace a node whose input types are all known, and store the results in `traced`.

    A layer that needs the numbers for which quantized constants stand gets them as constants.
    """
    node = traced.node
    types = [t for t in traced.inputs if t is not None]
    if constants.reads_quantized(node, types) and all(d.built_in for d in definitions):
        try:
            held = constants.held(node, types)
            _trace_node(traced, network, definitions, constants.kept(node), held, check, budget)
        except LayerError:
            traced.reason = "its code needs constants"
        if not traced.is_host_call:
            return
        traced.reason = ""
    arrays = constants.given(node)
    held = [i for i, array in arrays.items() if elements_of(array) is not None]
    _trace_node(traced, network, definitions, arrays, held, check, budget)


def _trace_node(
    traced: TracedNode,
    network: Network,
    definitions: Sequence[Definition],
    constant_arrays: Mapping[int, Array | None],
    held: Sequence[int],
    check: Sequence[Compiler],
    budget: Budget,
) -> None:
    """Trace a node whose input types are all known, and store the results in `traced`.

    `constant_arrays` are the values of its constant inputs, by index; an absent input is None. Operations on those
    of `held` are recorded.
    """
    node = traced.node
    known_types = [t for t in traced.inputs if t is not None]
    bound = traced.bound = bind(node, definitions, known_types, network.dialect, network.dtype)
    rebuild = bound.renewer()
    free = [i for i in range(len(known_types)) if i not in constant_arrays]
    if not free and not held:  # the outputs are constant too
        if bound.definition.built_in:
            _need_computed(bound, known_types, constant_arrays, budget)
            outputs = [np.asarray(o) for o in bound([constant_arrays[i] for i in range(len(known_types))])]
        else:
            outputs = run_bound(bound, [constant_arrays[i] for i in range(len(known_types))])
        traced.constants = dict(enumerate(outputs))
        traced.outputs = [*countable_types(outputs)]
        budget.take_weights(bound)
        budget.take_computed(allocated_bytes(outputs, [*node.blobs, *constant_arrays.values()]))
        return

    def merged(target: Bound) -> Callable[[list[Any]], list[Any]]:
        def call(arrays: list[Any]) -> list[Array]:
            full: list[Any] = [constant_arrays.get(i) for i in range(len(known_types))]
            if not target.definition.built_in:
                full = guarded(target, full)
            for i in held:
                full[i] = tracing.hold(tracing.running_graph(), constant_arrays[i])
            for i, array in zip(free, arrays):
                full[i] = with_sizes(array, known_types[i]) if target.definition.built_in else array
            return target(full)

        return call

    if bound.definition.native_only:
        traced.outputs = list(bound.instance.outputs)
        return
    types = [known_types[i] for i in free]
    name_conditions(f"layer '{node.name}' ({node.type})" if bound.definition.built_in else "")
    try:
        if bound.definition.built_in:
            body = trace_with_selections(
                lambda sized: _trace_built_in(merged(bound), sized, f"{node.name}/", budget), types, exact=True
            )
        else:
            body = _trace_user(bound, rebuild, merged, types)
            if check:
                compare_trace(body, merged(rebuild()), types, *check)
    except TraceError as error:
        traced.reason = str(error).removeprefix(f"{node.place}: ")
        traced.bound = rebuild()
        plain = {i: array for i, array in constant_arrays.items() if elements_of(array) is None}
        with adding_advice(f"It cannot be recorded, either: {traced.reason}"):
            traced.outputs = [*_host_types(traced.bound, known_types, rebuild, plain)]
        return
    budget.take_graph(body)
    budget.take_weights(bound)
    traced.notes += [note for note in body.notes if type(note) is Lost]
    traced.outputs = [v.type for v in body.outputs]
    traced.constants = {i: v.const for i, v in enumerate(body.outputs) if v.const is not None}
    budget.take_computed(sum(c.nbytes for c in traced.constants.values()))
    traced.body = None if traced.is_constant else body


def _take_kernel(traced: TracedNode, network: Network) -> None:
    """Make the native kernel of a node's type compute it. A layer whose outputs are constants needs no kernel.
    Raises LayerError if the kernel returns other shapes than the NumPy class of the type.
    """
    bound = traced.bound
    kernel = bound.definition.kernel if bound is not None else None
    if bound is None or kernel is None or traced.is_constant:
        return
    types = [t for t in traced.inputs if t is not None]
    output_types = [t for t in traced.outputs if t is not None]
    native = (
        bound.instance if bound.definition.native_only else kernel(traced.node, types, network.dtype, output_types)
    )
    need_memory(sum(map(size, [*types, *native.outputs, *native.internals])), "it")
    for i, (kind, expected) in enumerate(zip(native.outputs, traced.outputs)):
        if expected is not None and kind != expected:
            raise native.error(
                f"output {i} is {kind}, its NumPy class in {bound.definition.origin} returns {expected}. "
                "Correct the library, or give your own NumPy class beside it"
            )
    traced.kernel = native
    traced.constants = {}


def _trace_user(
    bound: Bound,
    rebuild: Callable[[], Bound],
    merged: Callable[[Bound], Callable[[list[Any]], list[Any]]],
    types: Sequence[TensorType],
) -> Graph:
    """Return the trace of a user's class. Each further attempt is made with a new instance."""
    tried: list[Bound] = []
    checked_types, notes = getattr(bound.definition.cls, "checked", (None, []))
    is_repeated = traces_symbolically() or types != checked_types

    def attempt() -> Callable[[list[Any]], list[Any]]:
        tried.append(rebuild() if tried else bound)
        return merged(tried[-1])

    def trace(kinds: Sequence[TensorType]) -> Graph:
        name, subject = f"{bound.node.name}/", lambda: tried[-1].instance
        return tracing.trace_checked(
            attempt(), kinds, prefix=name, rebuild=attempt, subject=subject, is_repeated=is_repeated
        )

    graph = trace_with_selections(trace, types)
    graph.notes += [n for n in notes if n not in graph.notes]
    return graph


def _need_computed(
    bound: Bound, types: Sequence[TensorType], constant_arrays: Mapping[int, Array | None], budget: Budget
) -> None:
    """Raise LayerError if the results of a layer with constant inputs exceed the budget, before NumPy allocates
    them. The size of the results comes from a trace. All inputs are traced first. If that fails, small integer
    inputs after the first stay constant, because shapes may depend on them.
    """
    deciding = [
        i for i in constant_arrays if i and types[i].dtype.kind in "iu" and size(types[i]) <= _MAX_SHAPE_BYTES
    ]
    for held in ([], deciding):
        free = [i for i in range(len(types)) if i not in held and constant_arrays[i] is not None]

        def call(arrays: list[Any], held: Sequence[int] = held, free: Sequence[int] = free) -> list[Array]:
            full: list[Any] = [constant_arrays[i] if i in held else None for i in range(len(types))]
            for i, array in zip(free, arrays):
                full[i] = array
            return bound(full)

        try:
            body = _trace_built_in(call, [types[i] for i in free], f"{bound.node.name}/", budget)
        except AnyLayerError as error:
            if isinstance(error.__cause__, TooManyOperators):
                raise
            continue
        budget.take_graph(body)
        budget.need_computed(graph_memory(body))
        return


def _trace_built_in(
    function: Callable[[list[Any]], list[Any]], types: Sequence[TensorType], prefix: str, budget: Budget
) -> Graph:
    """Return the trace of a built-in layer. Raises LayerError where it takes more operators than the limit."""
    limit = budget.layer_operators()
    try:
        with tracing.substitution.substitute_numpy() if traces_symbolically() else nullcontext():
            return tracing.trace(function, types, prefix=prefix, limit=limit, branches=False)
    except TooManyOperators as error:
        budget.operators -= limit
        raise LayerError(
            f"takes more than {limit} operators at these shapes; the limit is {MAX_LAYER_OPERATORS} for a layer "
            f"and {MAX_OPERATORS} for a network. Engine 'numpy' has no limit"
        ) from error


def _host_types(
    bound: Bound, types: Sequence[TensorType], rebuild: Callable[[], Bound], constants: Mapping[int, Array | None]
) -> list[TensorType]:
    """Return the types of a host call's outputs: those that its class declares, or else those of a trial.

    The trial's inputs are the constants that it reads and zeros, or noise if it fails for zeros, last up to 255.
    """
    if bound.declared is not None and bound.dtype is not None:
        return [TensorType(shape, bound.dtype) for shape in bound.declared]
    unsized = [t for t in types if not all(isinstance(d, int) for d in t.shape)]
    need(
        not unsized,
        f"runs in Python and reads {unsized[0] if unsized else ''}, whose size is known only when the network "
        "runs. Use engine 'numpy' for such a network",
    )
    types = [TensorType(plain(t.shape), t.dtype) for t in types]
    need_memory(sum(map(size, types)), "trying it")
    errors: list[LayerError] = []
    zeros = [np.zeros(t.shape, t.dtype) for t in types]
    for arrays in (zeros, uniform_noise(types), normal_noise(types), uniform_noise(types, highest=255)):
        trial = rebuild()
        try:
            outputs = run_bound(trial, [constants.get(i, x) for i, x in enumerate(arrays)])
        except LayerError as error:
            errors.append(error)
            continue
        bound.writes = bound.writes or trial.writes
        return [TensorType(o.shape, o.dtype) for o in outputs]
    advice = "It ran on zeros and noise, to find the shapes of its outputs; getMemoryShapes can state them"
    with nullcontext() if bound.definition.built_in else adding_advice(advice):
        raise errors[0]


def run_bound(bound: Bound, inputs: Sequence[Array | None]) -> list[Array]:
    """Run a layer in NumPy and return its outputs.

    An optional input that is absent is None. The inputs are read-only; a user's class that tries to write to them
    gets copies from then on. An output to which a user's class keeps a reference is copied. An exception in a
    user's class becomes a LayerError that names it.
    """
    first = not (bound.definition.built_in or bound.called or bound.writes)
    renew = bound.renewer() if first else None
    try:
        with np.errstate(all=bound.errors):
            outputs = [np.asarray(o) for o in bound(guarded(bound, inputs))]
    except AnyLayerError:
        raise
    except Exception as error:
        return after_error(bound, inputs, error, renew)
    bound.called = True
    return outputs if bound.definition.built_in else unshared(outputs)


def after_error(
    bound: Bound, inputs: Sequence[Array | None], error: Exception, renew: Callable[[], Bound] | None = None
) -> list[Array]:
    """Handle an exception in a user's forward: return the outputs of a second call, or raise a LayerError.

    The call is repeated with copies of the inputs if forward tried to write to a read-only one. If this was the
    first call, `renew` returns an instance with the state before it.
    """
    if bound.definition.built_in:
        raise error
    if isinstance(error, ValueError) and "read-only" in str(error) and not bound.writes:
        bound.writes = True
        if renew is not None:
            bound.instance = renew().instance
        return run_bound(bound, inputs)
    with at(bound.node.place):
        raise bound.raised(error) from error


def guarded(bound: Bound, inputs: Sequence[Array | None]) -> list[Array | None]:
    """Return the inputs for a layer: copies where its class writes to them, and read-only views otherwise."""
    if bound.writes:
        return [None if x is None else x.copy() for x in inputs]
    views = [None if x is None else x.view() for x in inputs]
    for view in views:
        if view is not None:
            view.setflags(write=False)
    return views
