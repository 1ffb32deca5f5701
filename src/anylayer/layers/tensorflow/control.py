"""Loops and branches, whose bodies are functions of the graph or frames of version 1, and lists of arrays.

A list, a TensorArray of version 1 or a TensorList, of n arrays is an array (n, *shape). While the shape of its
elements is not known, it is (n, 0). The handle of a TensorArray is an empty array, and its `flow` is the list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Node, attribute, layer, need
from anylayer.layer.arguments import integer, integers, is_constant
from anylayer.layers._control import Control
from anylayer.layers._table import define, operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer, results, results_listed_by
from anylayer.network import Network, Subgraph

_MAX_LENGTH = 1 << 20
"""Limit on the length of a list that a file states."""


def _has_unknown_elements(x: Array) -> bool:
    return len(x.shape) == 2 and x.shape[1] == 0


def with_known_elements(states: Sequence[Array], following: Callable[[], Sequence[Array]]) -> list[Array]:
    """Return the states before a loop, in which lists have the elements that they have after a step."""
    if not any(map(_has_unknown_elements, states)):
        return list(states)
    return [
        np.zeros((x.shape[0], *y.shape[1:]), y.dtype) if _has_unknown_elements(x) and len(y.shape) > 1 else x
        for x, y in zip(states, following())
    ]


def _empty(count: Any, shape: Any, dtype: str) -> Array:
    is_static = isinstance(shape, list) and all(d is not None and d >= 0 for d in shape)
    return np.broadcast_to(np.zeros((), dtype), (count, *(shape if is_static else (0,))))


def _reserve(element_shape: Array, num_elements: Array, element_dtype: str) -> Array:
    count = integer(num_elements, "num_elements")
    need(0 <= count <= _MAX_LENGTH, f"num_elements must lie in 0..{_MAX_LENGTH}, got {count}")
    return _empty(count, integers(element_shape, "element_shape"), element_dtype)


def _write(x: Array, index: Array, item: Array) -> Any:
    """Return the list with another element."""
    if _has_unknown_elements(x):
        x = np.zeros((x.shape[0], *item.shape), item.dtype)
    need(
        tuple(x.shape[1:]) == tuple(item.shape) and x.dtype == item.dtype,
        f"the elements of the list are {x.dtype}{list(x.shape[1:])}, got {item.dtype}{list(item.shape)}",
    )
    if not is_constant(index):
        return ops.scatter_nd(x, index.astype(np.int64).reshape(1, 1), item[None])
    i = _place(x, index)
    return np.concatenate([x[:i], item[None], x[i + 1 :]])


def _read(x: Array, index: Array) -> Any:
    return x[_place(x, index)] if is_constant(index) else ops.gather(x, index, axis=0)


def _place(x: Array, index: Array) -> int:
    i = integer(index, "index")
    need(0 <= i < x.shape[0], f"index {i} is not within the list of {x.shape[0]} elements")
    return i


def _set_item(x: Array, index: Array, item: Array, resize_if_index_out_of_bounds: bool) -> Any:
    need(not resize_if_index_out_of_bounds or is_constant(index), "a list that grows is not supported")
    return _write(x, index, item)


def _stack(x: Array, element_shape: Array, num_elements: int) -> Any:
    if _has_unknown_elements(x):
        sizes = integers(element_shape, "element_shape")
        need(all(d >= 0 for d in sizes), "the shape of the list's elements is not known, because none is written")
        return np.zeros((x.shape[0], *sizes), x.dtype)
    return x


def _scatter(indices: Array, value: Array, x: Array) -> Any:
    """Return a list with other elements at some indices."""
    if _has_unknown_elements(x):
        x = np.zeros((x.shape[0], *value.shape[1:]), value.dtype)
    if is_constant(indices) and integers(indices, "indices") == list(range(int(x.shape[0]))):
        return value
    return ops.scatter_nd(x, indices.astype(np.int64)[:, None], value)


def _tensor_array(size: Array, dtype: str, element_shape: Any) -> tuple[Array, Array]:
    count = integer(size, "size")
    need(0 <= count <= _MAX_LENGTH, f"size must lie in 0..{_MAX_LENGTH}, got {count}")
    return np.zeros(0, np.int32), _empty(count, element_shape, dtype)


_LIST = {"harmless": frozenset({"shape_type", "element_dtype", "element_shape", "dtype"})}
_DTYPE = attribute("string")
_SHAPE = attribute("any", None)

operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "TensorListReserve": row("Return a list of num_elements arrays.", _reserve, "list_kernels.cc",
            "element_shape and num_elements are constants.", {"harmless": frozenset({"shape_type"})},
            element_dtype=_DTYPE),
        "TensorListFromTensor": row("Return the list of the slices of an array along its first axis.",
            lambda x, element_shape: x, "list_kernels.cc", body=_LIST),
        "TensorListStack": row("Return the elements of a list, stacked along a new first axis.", _stack,
            "list_kernels.cc", body=_LIST, num_elements=attribute("int64", -1)),
        "TensorListGetItem": row("Return one element of a list.", lambda x, index, element_shape: _read(x, index),
            "list_kernels.cc", body=_LIST),
        "TensorListSetItem": row("Return a list with another element at an index.", _set_item, "list_kernels.cc",
            body=_LIST, resize_if_index_out_of_bounds=attribute("bool", False)),
        "TensorListLength": row("Return the number of elements of a list.",
            lambda x: np.array(x.shape[0], np.int32), "list_kernels.cc"),
        "TensorListGather": row("Return the elements of a list at the indices, stacked.",
            lambda x, indices, element_shape: ops.gather(x, indices, axis=0), "list_kernels.cc", body=_LIST),
        "TensorArrayV3": row("Return a list of `size` arrays, a constant, as a handle and a flow.", _tensor_array,
            "tensor_array_ops.cc",
            body={"results": results("handle", "flow"), "harmless": frozenset({
                "dynamic_size", "clear_after_read", "identical_element_shapes", "tensor_array_name"})},
            dtype=_DTYPE, element_shape=_SHAPE),
        "TensorArraySizeV3": row("Return the number of elements of a list.",
            lambda handle, flow: np.array(flow.shape[0], np.int32), "tensor_array_ops.cc"),
        "TensorArrayReadV3": row("Return one element of a list.",
            lambda handle, index, flow: _read(flow, index), "tensor_array_ops.cc", body=_LIST),
        "TensorArrayWriteV3": row("Return the flow of a list with another element at an index.",
            lambda handle, index, value, flow: _write(flow, index, value), "tensor_array_ops.cc", body=_LIST),
        "TensorArrayGatherV3": row("Return the elements of a list at the indices, stacked.",
            lambda handle, indices, flow: ops.gather(flow, indices, axis=0), "tensor_array_ops.cc", body=_LIST),
        "TensorArrayScatterV3": row("Return the flow of a list with other elements at the indices.",
            lambda handle, indices, value, flow: _scatter(indices, value, flow), "tensor_array_ops.cc",
            body=_LIST),
    },
)  # fmt: skip


class _Control(Control, TensorFlowLayer):
    family = "tensorflow"
    harmless = frozenset({"output_shapes", "parallel_iterations", "Tcond", "Tin", "Tout"})


@layer("If")
class If(_Control):
    """Run one of two functions, which the condition selects.

    Inputs: a scalar, which is true if it is not 0, and the arguments of both functions. If the condition depends
    on the network's inputs, both run and the outputs are selected, which requires equal shapes.
    Source: tf.raw_ops.If; tensorflow/core/kernels/functional_ops.cc.
    """

    then_branch: Subgraph = attribute("any", doc="the function for a true condition")
    else_branch: Subgraph = attribute("any", doc="the function for a false condition")

    results = results_listed_by("Tout")

    def forward(self, condition: Array, *arguments: Array) -> list[Array]:
        need(len(condition.shape) == 0, f"the condition must be a scalar, got shape {tuple(condition.shape)}")
        inputs = (condition != 0, *arguments)
        return self.branch(inputs[0], (self.then_branch, self.else_branch), inputs, 1)


@layer("While")
class While(_Control):
    """Run the function `body` on its own results while `cond` is true of them.

    Inputs and outputs: the values of the loop, before and after it. `cond` returns a scalar.
    Source: tf.raw_ops.While; tensorflow/core/kernels/functional_ops.cc.
    """

    cond: Subgraph = attribute("any", doc="the function that says whether there is another step")
    body: Subgraph = attribute("any", doc="the function of one step")

    results = results_listed_by("T")

    def prepare(self, node: Node, dialect: str | None) -> None:
        super().prepare(node, dialect)
        self._stacking, self._lists = _with_rows(self.cond.network, self.body.network)

    def forward(self, *values: Array) -> list[Array]:
        limits, only = _limits(self.cond.network, self.body.network, values)
        limit: Any = np.maximum(np.min(np.stack(limits)), 0) if limits else None
        is_stacked = bool(self._lists) and only and is_constant(limit)
        for i, counter in self._lists.items():
            is_filled = is_constant(values[counter]) and int(np.asarray(values[counter]).reshape(())) == 0
            is_stacked = is_stacked and is_filled and int(np.asarray(limit)) == values[i].shape[0] > 0
        lists = [*self._lists] if is_stacked else []
        body = self._stacking if is_stacked else self.body
        fixed = [*_invariants(self.body.network), *lists]
        changing = [i for i in range(len(values)) if i not in fixed]
        others = [values[i] for i in fixed]

        def arguments(states: Sequence[Array], others: Sequence[Array]) -> list[Any]:
            both = {**dict(zip(changing, states)), **dict(zip(fixed, others))}
            return [both[i] for i in range(len(values))]

        def goes_on(states: Sequence[Array], others: Sequence[Array]) -> Any:
            (condition,) = self.inside(self.cond, arguments(states, others), ())
            return condition if condition.dtype == bool else condition != 0

        def following(states: Sequence[Array], others: Sequence[Array]) -> list[Array]:
            results = self.inside(body, arguments(states, others), ())
            return [results[i] for i in (*changing, *lists)]

        def step(inputs: list[Any]) -> list[Array]:
            states = following(inputs[2 : 2 + len(changing)], inputs[2 + len(changing) :])
            return [inputs[1] if only else goes_on(states, inputs[2 + len(changing) :]), *states]

        states = [values[i] for i in changing]
        states = with_known_elements(states, lambda: following(states, others))
        condition = None if only else goes_on(states, others)
        results = self.loop(step, limit, condition, states, others, len(lists), runs_on=only)
        last = arguments(results, others)
        for i, rows in zip(lists, results[len(changing) :]):
            last[i] = rows
        return last


for name, base in (("StatelessIf", If), ("StatelessWhile", While)):
    details = f"{SOURCE}functional_ops.cc.".format(name=name)
    define(name, base, f"Compute {base.__name__} with functions that change nothing else.", details)


def _sources(network: Network) -> Callable[[str], str]:
    """Return the function that returns the value which a value of a network is, without identities."""
    sources = {n.outputs[0]: n.inputs[0] for n in network.nodes if n.type == "Identity"}

    def source(name: str) -> str:
        while name in sources:
            name = sources[name]
        return name

    return source


def _invariants(body: Network) -> list[int]:
    """Return the arguments, by number, that each step returns unchanged."""
    source = _sources(body)
    return [i for i, (a, b) in enumerate(zip(body.inputs, body.outputs.values())) if source(b) == a]


_WRITES = {"TensorListSetItem": (0, 1, 2), "TensorArrayWriteV3": (3, 1, 2)}
"""The operations that write an element of a list: which inputs are the list, the index and the element."""


def _with_rows(cond: Network, body: Network) -> tuple[Subgraph, dict[int, int]]:
    """Return the body of a loop in which lists that it only writes are replaced by their elements, and the
    counters that are the indices of these lists. Lists and counters are the numbers of arguments.
    """
    source, inputs = _sources(body), list(body.inputs)
    uses = Counter(source(name) for n in body.nodes if n.type != "Identity" for name in n.inputs)
    uses.update(map(source, body.outputs.values()))
    cond_source = _sources(cond)
    uses.update(
        inputs[i]
        for i, name in enumerate(cond.inputs)
        if any(cond_source(x) == name for n in cond.nodes for x in n.inputs)
    )
    producers = {n.outputs[0]: n for n in body.nodes}
    outputs, lists, removed = dict(body.outputs), dict[int, int](), set[str]()
    for i, (key, name) in enumerate(body.outputs.items()):
        node = producers.get(source(name))
        if node is None or node.type not in _WRITES:
            continue
        written, index, element = (node.inputs[k] for k in _WRITES[node.type])
        is_counted = source(index) in inputs and inputs.index(source(index)) in _counters(body)
        if source(written) == inputs[i] and uses[inputs[i]] == uses[node.outputs[0]] == 1 and is_counted:
            outputs[key], lists[i] = element, inputs.index(source(index))
            removed.add(node.outputs[0])
    nodes = [n for n in body.nodes if source(n.outputs[0]) not in removed]
    return Subgraph(replace(body, nodes=nodes, outputs=outputs), []), lists


def _limits(cond: Network, body: Network, values: Sequence[Array]) -> tuple[list[Any], bool]:
    """Return the numbers of steps after which a counter has reached its limit, and whether only this ends the
    loop.

    A counter is an argument to which each step adds 1. Its limit is a constant, or an argument that stays the
    same.
    """
    source = _sources(cond)
    producers = {n.outputs[0]: n for n in cond.nodes}
    arguments = dict(zip(cond.inputs, values))
    fixed, counters = ([list(cond.inputs)[i] for i in numbers] for numbers in (_invariants(body), _counters(body)))
    constants: dict[str, Array] = {n.outputs[0]: n.blobs[0] for n in cond.nodes if n.type == "Const"}
    constants.update((name, arguments[name]) for name in fixed)
    waiting, limits, only = [*cond.outputs.values()], list[Any](), True
    while waiting:
        node = producers.get(source(waiting.pop()))
        if node is not None and node.type == "LogicalAnd":
            waiting += node.inputs
        elif node is not None and node.type in _BELOW:
            low, high = map(source, node.inputs[:: _BELOW[node.type]])
            end: Any = constants.get(high)
            if low in counters and end is not None and end.dtype.kind in "iu":
                start = arguments[low].astype(np.int64)
                limits.append((end.astype(np.int64) - start).reshape(()) + int(node.type.endswith("Equal")))
            else:
                only = False
        else:
            only = False
    return limits, only


_BELOW = {"Less": 1, "LessEqual": 1, "Greater": -1, "GreaterEqual": -1}
"""The comparisons of a counter with its limit, and the order of their inputs."""


def _counters(body: Network) -> list[int]:
    """Return the arguments, by number, to which each step adds 1."""
    source = _sources(body)
    producers = {n.outputs[0]: n for n in body.nodes}
    counters = []
    for i, (argument, result) in enumerate(zip(body.inputs, body.outputs.values())):
        node = producers.get(source(result))
        if node is None or node.type not in ("Add", "AddV2"):
            continue
        parts = [source(n) for n in node.inputs]
        ones = [
            p for p in parts if (n := producers.get(p)) is not None and n.type == "Const" and _is_one(n.blobs[0])
        ]
        if argument in parts and ones:
            counters.append(i)
    return counters


def _is_one(array: Array) -> bool:
    return array.size == 1 and array.dtype.kind in "iu" and int(array.reshape(())) == 1
