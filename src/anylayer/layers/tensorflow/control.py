"""Loops and branches, whose bodies are functions of the graph or frames of version 1, and lists of arrays.

A list, a TensorArray of version 1 or a TensorList, of n arrays is an array (n, *shape). While the shape of its
elements is not known, it is (n, 0). The handle of a TensorArray is an empty array, and its `flow` is the list.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, layer, need
from anylayer.layer.arguments import integer, integers, is_constant
from anylayer.layers._functions import FunctionIf, FunctionWhile, has_unknown_elements
from anylayer.layers._table import define, operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer, results, results_listed_by

_MAX_LENGTH = 1 << 20
"""Limit on the length of a list that a file states."""


def _empty(count: Any, shape: Any, dtype: str) -> Array:
    is_static = isinstance(shape, list) and all(d is not None and d >= 0 for d in shape)
    return np.broadcast_to(np.zeros((), dtype), (count, *(shape if is_static else (0,))))


def _reserve(element_shape: Array, num_elements: Array, element_dtype: str) -> Array:
    count = integer(num_elements, "num_elements")
    need(0 <= count <= _MAX_LENGTH, f"num_elements must lie in 0..{_MAX_LENGTH}, got {count}")
    return _empty(count, integers(element_shape, "element_shape"), element_dtype)


def _write(x: Array, index: Array, item: Array) -> Array:
    """Return the list with another element."""
    if has_unknown_elements(x):
        x = np.zeros((x.shape[0], *item.shape), item.dtype)
    need(
        tuple(x.shape[1:]) == tuple(item.shape) and x.dtype == item.dtype,
        f"the elements of the list are {x.dtype}{list(x.shape[1:])}, got {item.dtype}{list(item.shape)}",
    )
    if not is_constant(index):
        return ops.scatter_nd(x, index.astype(np.int64).reshape(1, 1), item[None])
    i = _place(x, index)
    return np.concatenate([x[:i], item[None], x[i + 1 :]])


def _read(x: Array, index: Array) -> Array:
    return x[_place(x, index)] if is_constant(index) else ops.gather(x, index, axis=0)


def _place(x: Array, index: Array) -> int:
    i = integer(index, "index")
    need(0 <= i < x.shape[0], f"index {i} is not within the list of {x.shape[0]} elements")
    return i


def _set_item(x: Array, index: Array, item: Array, resize_if_index_out_of_bounds: bool) -> Array:
    need(not resize_if_index_out_of_bounds or is_constant(index), "a list that grows is not supported")
    return _write(x, index, item)


def _stack(x: Array, element_shape: Array, num_elements: int) -> Array:
    if has_unknown_elements(x):
        sizes = integers(element_shape, "element_shape")
        need(all(d >= 0 for d in sizes), "the shape of the list's elements is not known, because none is written")
        return np.zeros((x.shape[0], *sizes), x.dtype)
    return x


def _scatter(indices: Array, value: Array, x: Array) -> Array:
    """Return a list with other elements at some indices."""
    if has_unknown_elements(x):
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


class _Control(TensorFlowLayer):
    family = "tensorflow"
    harmless = frozenset({"output_shapes", "parallel_iterations", "Tcond", "Tin", "Tout"})


@layer("If")
class If(FunctionIf, _Control):
    """Run one of two functions, which the condition selects.

    Inputs: a scalar, which is true if it is not 0, and the arguments of both functions. If the condition depends
    on the network's inputs, both run and the outputs are selected, which requires equal shapes.
    Source: tf.raw_ops.If; tensorflow/core/kernels/functional_ops.cc.
    """

    results = results_listed_by("Tout")


@layer("While")
class While(FunctionWhile, _Control):
    """Run the function `body` on its own results while `cond` is true of them.

    Inputs and outputs: the values of the loop, before and after it. `cond` returns a scalar.
    Source: tf.raw_ops.While; tensorflow/core/kernels/functional_ops.cc.
    """

    results = results_listed_by("T")


for name, base in (("StatelessIf", If), ("StatelessWhile", While)):
    details = f"{SOURCE}functional_ops.cc.".format(name=name)
    define(name, base, f"Compute {base.__name__} with functions that change nothing else.", details)
