"""Matrix products, Softmax and reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.graph import Op
from anylayer.network import Array, Shape
from anylayer.writers._target import NotInTarget, present, require
from anylayer.writers.ncnn.builder import NcnnBuilder, NcnnLowering, float_weights
from anylayer.writers.ncnn.data_movement import axes_of, merge_axes

_REDUCTIONS = {
    "ReduceSum": 0,
    "ReduceMean": 3,
    "ReduceMax": 4,
    "ReduceMin": 5,
    "ReduceProd": 6,
    "ReduceL1": 7,
    "ReduceL2": 8,
    "ReduceSumSquare": 2,
}


def _gemm(b: NcnnBuilder, op: Op) -> list[str]:
    """Add an InnerProduct for a product with constant weights."""
    x, w = op.inputs[:2]
    if x is None or w is None or w.const is None:
        raise NotInTarget("computed weights")
    require(not op["transA"], "transA")
    alpha, beta = float(op["alpha"]), float(op["beta"])
    weights = np.asarray(w.const if op["transB"] else w.const.T, np.float32)
    bias = None
    if (c := op.input(2)) is not None:
        if c.const is None or c.const.size not in (1, weights.shape[0]) or max((1, *c.shape[:-1])) > 1:
            raise NotInTarget(f"a third operand {c.type} that is not a bias")
        bias = np.broadcast_to(np.asarray(c.const, np.float32).reshape(-1) * np.float32(beta), weights.shape[:1])
    if alpha != 1:
        weights = weights * np.float32(alpha)
    return [_inner_product(b, b.blob_of_shape(x, _rows(x.shape)), weights, bias)]


def _rows(shape: tuple[int, ...]) -> Shape:
    """Return a shape as ncnn's InnerProduct needs it: (rows, size), or (size,) for one row."""
    count = math.prod(shape[:-1])
    return (shape[-1],) if count == 1 else (count, shape[-1])


def _inner_product(b: NcnnBuilder, x: str, weights: Array, bias: Array | None) -> str:
    """Add an InnerProduct: the rows of blob x times the transpose of `weights` (outputs, inputs), plus `bias`."""
    shape = (*b.shapes[x][:-1], weights.shape[0])
    params = {0: weights.shape[0], 1: int(bias is not None), 2: weights.size}
    data = float_weights(weights) if bias is None else [*float_weights(weights), np.ascontiguousarray(bias)]
    return b.add("InnerProduct", [x], shape, params, data)


def _matmul(b: NcnnBuilder, op: Op) -> list[str]:
    """Add an InnerProduct for a constant right matrix, else a MatMul."""
    x, y = (present(v) for v in op.inputs)
    if y.const is not None and len(y.shape) == 2 and x.const is None:
        return [_inner_product(b, b.blob_of_shape(x, _rows(x.shape)), np.asarray(y.const.T, np.float32), None)]
    require(len(x.shape) > 1 and len(y.shape) > 1, "a vector")
    shape = op.outputs[0].shape
    count = math.prod(shape[:-2])
    sides: list[Shape] = []
    for value in (x, y):
        batch = math.prod(value.shape[:-2])
        require(batch in (1, count), f"batches {list(x.shape)} and {list(y.shape)} that broadcast")
        sides.append(tuple(value.shape[-2:]) if batch == 1 else (count, *value.shape[-2:]))
    result = (*((count,) if count > 1 else ()), *shape[-2:])
    return [b.add("MatMul", [b.blob_of_shape(x, sides[0]), b.blob_of_shape(y, sides[1])], result)]


def _softmax(b: NcnnBuilder, op: Op) -> list[str]:
    x = present(op.inputs[0])
    axis = int(op["axis"]) % len(x.shape)
    shape, place = merge_axes(x.shape, {axis})
    return [b.add("Softmax", [b.blob_of_shape(x, shape)], shape, {0: place[axis], 1: 1})]


def _reduce(b: NcnnBuilder, op: Op) -> list[str]:
    """Add a Reduction along the axes that do not have size 1."""
    x = present(op.inputs[0])
    axes = {i for i in axes_of(op) if x.shape[i] != 1}
    if not axes:
        require(op.op not in ("ReduceL1", "ReduceL2", "ReduceSumSquare"), "a reduction along axes of size 1")
        return [b.blob(x)]
    shape, place = merge_axes(x.shape, axes)
    kept_shape = tuple(n for i, n in enumerate(shape) if i not in place.values())
    params: dict[int, Any] = {0: _REDUCTIONS[op.op], 1: int(not kept_shape), 4: 0, 5: 1}
    if kept_shape:
        params[3] = sorted(place.values())
    return [b.add("Reduction", [b.blob_of_shape(x, shape)], kept_shape or (1,), params)]


PRODUCTS: dict[str, NcnnLowering] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Softmax": _softmax,
    **dict.fromkeys(_REDUCTIONS, _reduce),
}
