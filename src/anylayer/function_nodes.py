"""NumPy functions as parts of a network: one node per function, defined by the function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anylayer.compile.selections import trace_with_selections
from anylayer.errors import (
    AnyLayerError,
    InputError,
    TraceError,
    at,
    call_contained,
    kind_and_text,
    need,
    need_one_of,
    plural,
)
from anylayer.graph import Graph
from anylayer.graph.guards import symbolic_trace
from anylayer.graph.sizes import is_static
from anylayer.graph.symbolic import is_empty, plain
from anylayer.layer import Definition
from anylayer.network import Array, DType, Function, Network, Node, TensorType, open_text
from anylayer.numerics import uniform_noise
from anylayer.tracing import SizeDependsOnData, trace_checked
from anylayer.tracing.array import TracedArray, selected
from anylayer.tracing.grown import GrownList, TracedList
from anylayer.tracing.python_numbers import as_arrays
from anylayer.tracing.record import current_graph

_OUTSIDE = "<function of the network>"


def function_node(function: Function, types: Mapping[str, TensorType]) -> tuple[Node, Definition, list[DType]]:
    """Return a node that computes a function, its definition, and the dtypes of its outputs.

    The node's inputs are `types`, in the order of the function's parameters. Its outputs are "output", or
    "output0", "output1", ... for a tuple or list, or the keys of a dict. Raises TraceError with the line that
    cannot be recorded, and InputError.
    """
    name = function_name(function)
    outputs, cls, dtypes = _layer(function, name, list(types.values()))
    type_, place = f"function {name}", f"function '{name}'"
    return Node(name, type_, list(types), outputs, place=place), Definition(type_, cls, place), dtypes


def function_name(function: Function) -> str:
    """Return the name of a function, or of the class of a callable object."""
    return str(getattr(function, "__name__", type(function).__name__))


def parameter_names(function: Function, count: int) -> list[str]:
    """Return the names of the function's first parameters. Raises InputError where it takes fewer."""
    parameters = _parameters(function)
    if parameters is None:
        return [f"x{i}" for i in range(count)]
    names, required, rest = parameters
    if rest is not None:
        names += [f"{rest}{i}" for i in range(count - len(names))]
    need(
        required <= count <= len(names),
        f"takes {plural(len(names), 'argument')}, got {plural(count, 'input')}",
        InputError,
    )
    return names[:count]


def _parameters(function: Function) -> tuple[list[str], int, str | None] | None:
    """Return the names of the positional parameters, how many of them are required, and the name of `*args`.

    Returns None for a built-in function without a signature.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    return (
        [p.name for p in positional],
        required,
        next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None),
    )


def input_type(given: Any) -> TensorType:
    """Return the type of an example array, or of a pair (shape, dtype)."""
    if isinstance(given, TensorType):
        return given
    try:
        if isinstance(given, tuple) and len(given) == 2 and not isinstance(given[1], (int, float)):
            shape, dtype = tuple(int(n) for n in given[0]), np.dtype(given[1])
        else:
            array = np.asarray(given)
            shape, dtype = array.shape, array.dtype
    except (TypeError, ValueError) as error:
        is_open = (
            isinstance(error, ValueError)
            and isinstance(given, tuple)
            and any(isinstance(n, str) for n in given[0])
        )
        remedy = (
            ". Give numbers here, and name the sizes that stay open in shapes={'x': ('N', 3)}" if is_open else ""
        )
        raise InputError(f"an input must be an array or a pair (shape, dtype): {error}{remedy}") from None
    real = dtype.kind in "biuf" and dtype.itemsize <= np.dtype(np.float64).itemsize
    need(real, f"an input of dtype {dtype} cannot be exported", InputError)
    need(min(shape, default=0) >= 0, f"an input has a negative size: {shape}", InputError)
    return TensorType.of(shape, dtype)


def _layer(function: Function, name: str, types: Sequence[TensorType]) -> tuple[list[str], type, list[DType]]:
    """Return the names of the outputs, a layer class whose `forward` is the function, and the outputs' dtypes."""
    results, notes = Results(), list[str]()

    def forward(self: Any, inputs: list[Any]) -> list[Any]:
        return results.arrays(function(*inputs), np.asarray)

    # The tracer inspects user code for state and randomness, but not the code of this package.
    module = getattr(function, "__module__", None) or "given"
    forward.__code__, forward.__module__ = forward.__code__.replace(co_filename=_OUTSIDE), module
    members = {
        "forward": forward,
        "__init__": lambda self, params, blobs: None,
        "__module__": module,
        "is_function": True,
        "checked": (types, notes),
    }
    cls = type(name, (), members)
    instance = cls({}, [])

    def traced() -> Graph:
        return trace_checked(
            instance.forward, types, rebuild=lambda: cls({}, []).forward, subject=lambda: instance
        )

    try:
        try:
            graph = traced()
        except SizeDependsOnData:
            with symbolic_trace({}, turn=0):
                graph = trace_with_selections(lambda _: traced(), types)
    except TraceError as error:
        raise _own_error(instance.forward, types, error) or error from error.__cause__
    names = list(results.names)
    if not names:
        raise InputError("returns no array")
    need(all(names), "returns an output whose name is empty", InputError)
    need(len(set(names)) == len(names), f"returns two outputs of one name: {', '.join(names)}", InputError)
    results.learn(graph)
    notes += graph.notes
    return names, cls, [v.dtype for v in graph.outputs]


def _own_error(
    forward: Callable[[list[Any]], Any], types: Sequence[TensorType], error: TraceError
) -> AnyLayerError | None:
    """Return the error of a function that raises the same exception for NumPy arrays as for traced ones.

    Its reason is the function then, and not that it is traced. None if the function computes an output.
    """
    if error.__cause__ is None or isinstance(error.__cause__, AnyLayerError):
        return None
    arrays = uniform_noise([TensorType.of(plain(t.shape), t.dtype) for t in types])
    try:
        with np.errstate(all="ignore"):
            call_contained(forward, arrays)
    except Exception as again:
        if kind_and_text(again) == kind_and_text(error.__cause__):
            return InputError(f"raises {': '.join(kind_and_text(again))}", *error.places)
    return None


class Results:
    """The results of a function as named outputs.

    Where one path of a function returns nothing (None, [] or an array without elements), the output has the dtype
    and the columns of the other paths, and no rows. A list that a loop fills is one output.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.types: list[TensorType] = []
        self.is_list = False
        self.absent: dict[str, str] = {}

    def learn(self, graph: Graph) -> None:
        """Set the types of the outputs from a trace of the function."""
        self.types = [TensorType(v.shape, v.dtype) for v in graph.outputs]
        for name, v in zip(self.names, graph.outputs):
            need(v not in graph.nothing or name not in self.absent, self.absent.get(name, ""), InputError)

    def arrays(self, result: Any, as_array: Callable[[Any], Any]) -> list[Any]:
        """Return what the function has returned as arrays.

        as_array: np.asarray, or what takes its place while the function is traced.
        """
        named = self._named(result)
        self.names = [name for name, _ in named]
        return [self._array(i, name, y, as_array) for i, (name, y) in enumerate(named)]

    def _nothing(self, number: int, array: Array) -> Array:
        """Return an array without elements in the type of an output."""
        shape, dtype = self.types[number].shape, self.types[number].dtype
        sizes = array.shape if array.ndim == len(shape) else (0,) * len(shape)
        columns = tuple(d if type(d) is int else n for d, n in zip(shape[1:], sizes[1:]))
        is_same = (sizes, array.shape[1:], array.dtype) == (array.shape, columns, dtype)
        return array if is_same or not shape else np.zeros((0, *columns), dtype)

    def _named(self, result: Any) -> list[tuple[str, Any]]:
        """Return the outputs with their names. Those of a dict in a list or a dict are named `output0.key`."""
        if type(result) is GrownList:
            self.is_list = True
        if isinstance(result, (tuple, list)) and not self.is_list and len(result):
            result = {f"output{i}": y for i, y in enumerate(result)}
        named = [*result.items()] if isinstance(result, dict) else [("output", result)]
        return [
            (f"{name}.{key}" if isinstance(y, dict) else str(name), z)
            for name, y in named
            for key, z in (y.items() if isinstance(y, dict) else [("", y)])
        ]

    def _array(self, number: int, name: str, output: Any, as_array: Callable[[Any], Any]) -> Any:
        """Return an output as an array."""
        is_list = isinstance(output, (list, tuple)) and not issubclass(type(output), TracedList)
        if is_list or isinstance(output, (str, bytes)):
            _shape_of(name, output)
        y = as_arrays(selected(output))
        kind = type(output).__name__
        rule = f"output '{name}' is of type {kind}, which a file cannot hold"
        if output is None or (is_list and not output):
            if output is None or name == "output":
                self.absent[name] = rule if output is None else "returns no array"
            y = np.zeros(0)
        array = y if hasattr(y, "__array_function__") else as_array(y)
        need(array.dtype != object, rule, InputError)
        if not is_static(array.shape) or not is_empty(array.shape):
            return array
        graph = current_graph.get()
        if graph is None:
            return self._nothing(number, array) if number < len(self.types) else array
        value = graph.constant(np.zeros(array.shape, array.dtype))
        graph.nothing.add(value)
        return TracedArray(graph, value)


def _shape_of(name: str, output: Any) -> tuple[int, ...]:
    """Return the shape of a function's output. Raises InputError for text, and for arrays of different shapes."""
    if isinstance(output, (str, bytes)):
        raise InputError(
            f"output '{name}' holds text, which a file cannot hold; return numbers, such as the positions of the "
            "texts in a list"
        )
    if not isinstance(output, (list, tuple)):
        return tuple(getattr(output, "shape", ()))
    shapes = {_shape_of(name, item) for item in output}
    rule = f"output '{name}' is a {type(output).__name__} of arrays or lists of different shapes"
    need(len(shapes) < 2, f"{rule}; return each array as an output of its own, or concatenate them", InputError)
    return len(output), *next(iter(shapes), ())


def before(network: Network, function: Function, inputs: Sequence[Any]) -> tuple[Network, Definition]:
    """Return a network whose inputs are computed by a function, and the definition of the function's node.

    inputs: an example array, or a pair (shape, dtype), per parameter of the function. The function's results are
    the network's inputs: by name for a dict, else in order. Inputs that it does not compute stay inputs. Raises
    what `function_node` raises.
    """
    types = dict(zip(parameter_names(function, len(inputs)), map(input_type, inputs)))
    node, definition, dtypes = function_node(function, types)
    with at(node.place):
        fed = _names_for(node.outputs, list(network.inputs), "input")
        for name, dtype in zip(fed, dtypes):
            expected = network.input_dtype(name)
            rule = f"returns {dtype} for the network's input '{name}', which is {expected}"
            need(dtype == expected, f"{rule}; return y.astype(np.{expected})", InputError)
        inner = {name for n in network.nodes for name in n.outputs}
        for name, kind in types.items():
            need(name not in inner, f"the network has a value '{name}'; rename the parameter", InputError)
            same = name in fed or network.inputs.get(name, kind) == kind
            rule = f"the network reads the input '{name}', too, as {network.inputs.get(name)}, not as {kind}"
            need(same, f"{rule}; rename the parameter", InputError)
    renamed = {name: f"{name}@{node.name}" for name in fed if name in types}
    nodes = [replace(n, inputs=[renamed.get(i, i) for i in n.inputs]) for n in network.nodes] if renamed else []
    changes: dict[str, Any] = {
        field: {name: value for name, value in getattr(network, field).items() if name not in fed}
        for field in ("inputs", "preprocess", "open", "dtypes", "layouts", "channel_orders")
    }
    changes["inputs"] = {**types, **changes["inputs"]}
    changes["nodes"] = [
        replace(node, outputs=[renamed.get(name, name) for name in fed]),
        *(nodes or network.nodes),
    ]
    for field in ("outputs", "blobs"):
        changes[field] = {name: renamed.get(value, value) for name, value in getattr(network, field).items()}
    return replace(network, **changes), definition


def _of_dtype(value: object, dtype: DType) -> Array:
    """Return numbers as an array of a dtype. Raises InputError for others, and for those that the dtype lacks: a
    fraction as an integer, 1e300 as float32.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise InputError(f"{value} is not an array: {error}") from None
    need(array.dtype.kind in "biuf", f"{value} is not a number or an array of real numbers", InputError)
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
    if dtype.kind == "f":
        holds = np.array_equal(np.isfinite(converted), np.isfinite(array))
    else:
        holds = np.array_equal(converted, array)
    need(holds, f"{value} is not of dtype {dtype}", InputError)
    return converted


def with_constants(network: Network, values: Mapping[str, object], users: dict[str, Definition]) -> Network:
    """Return a network in which inputs are constants. `users` gets the definition of the node that returns them.

    They are inputs no more, and what depends only on them is computed once: a branch, for example.
    A value has the input's shape, or is one number for all its elements. Raises InputError for a name that is not
    an input, and for a value of another shape or dtype.
    """
    arrays: dict[str, Array] = {}
    for name, value in values.items():
        need_one_of(name, network.inputs, f"the network has no input '{name}'", "its inputs")
        kind, dtype = network.inputs[name], network.input_dtype(name)
        with at(f"{network.source}: input '{name}'"):
            array = _of_dtype(value, dtype)
            shape = network.open.get(name, array.shape) if kind is None else kind.shape
            sizes = [d for d in shape if d is not None]
            if array.ndim == 0 and len(sizes) == len(shape):
                array = np.broadcast_to(array, sizes)
            suits = len(shape) == array.ndim and all(d in (None, n) for d, n in zip(shape, array.shape))
            need(suits, f"a constant has the input's shape {open_text(shape)}, got {array.shape}", InputError)
        arrays[name] = np.array(array)

    def constants() -> dict[str, Array]:
        return arrays

    network, definition = before(network, constants, ())
    users[definition.type] = definition
    return network


def after(
    network: Network, function: Function, output_types: Mapping[str, TensorType | None]
) -> tuple[Network, Definition]:
    """Return a network whose outputs are computed by a function of its outputs, and the definition of the node.

    output_types: the types of the network's outputs by name. The function's parameters are outputs of the network:
    by name where all of them are, else in order. Raises InputError for a type that is not known, and what
    `function_node` raises.
    """
    types: dict[str, TensorType] = {}
    for public, kind in output_types.items():
        if kind is None:
            raise InputError(f"the shape of output '{public}' is not known; give the inputs' shapes={{...}}")
        types[public] = kind
    _, required, rest = _parameters(function) or ([], 1, None)
    names = parameter_names(function, min(len(types), required) if rest is None else len(types))
    read = names if all(n in types for n in names) else list(types)[: len(names)]
    node, definition, _ = function_node(function, {name: types[name] for name in read})
    outputs = {name: f"{node.name}/{name}" for name in node.outputs}
    node = replace(node, inputs=[network.outputs[name] for name in read], outputs=list(outputs.values()))
    return replace(network, nodes=[*network.nodes, node], outputs=outputs), definition


def _names_for(results: Sequence[str], names: Sequence[str], what: str) -> list[str]:
    """Return the names that results stand for: their own where they are names of the network, else in order."""
    unnamed = results[0] in ("output", "output0") and not any(name in names for name in results)
    if unnamed:
        need(
            len(results) <= len(names),
            f"returns {plural(len(results), 'array')}, the network has {plural(len(names), what)}",
            InputError,
        )
        return list(names[: len(results)])
    for name in results:
        need_one_of(name, names, f"the network has no {what} '{name}'", f"its {what}s")
    return list(results)
