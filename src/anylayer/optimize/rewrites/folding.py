"""Data movement that is folded into parameters of convolutions and matrix products."""

from __future__ import annotations

import numpy as np

from anylayer.graph.arrangement import inverse
from anylayer.graph.facts import window_of
from anylayer.graph.ir import Op, Value
from anylayer.graph.operators import UNARY
from anylayer.graph.sizes import is_static
from anylayer.graph.symbolic import plain
from anylayer.network import Array
from anylayer.optimize.rules import Rewriter, rule
from anylayer.optimize.views import View, identity_view, transposed_view

_MAX_WEIGHT_BYTES = 1 << 25
"""The largest size of weights, in bytes, that are copied to save a Transpose of their product."""
_NCHW, _NHWC = (0, 1, 2, 3), (0, 3, 1, 2)
"""The axes of the samples, channels, rows and columns of a map."""


def _view(new: Rewriter, value: Value) -> View | None:
    """Search backwards through Reshapes and at most one Transpose, which at most one Reshape may precede. Return
    the value as a view of the value at which the search ends.
    """
    steps: list[Op] = []
    transposed = False
    while (o := new.producer(value)) is not None and o.op in ("Reshape", "Transpose"):
        previous = steps[-1].op if steps else ""
        if transposed and (o.op == "Transpose" or previous == "Reshape"):
            break
        transposed = transposed or o.op == "Transpose"
        steps.append(o)
        value = o.first
    view: View | None = identity_view(value)
    for o in reversed(steps):
        if view is not None:
            is_transpose = o.op == "Transpose"
            view = view.transposed(o["perm"]) if is_transpose else view.reshaped(o.outputs[0].shape)
    return view


def _space_to_batch(base: Value, layout: tuple[int, ...], block: tuple[int, int]) -> View | None:
    """Return the view of a map with axes (row in the block, column in the block, n, c, h, w), as SpaceToBatch
    arranges it. Return None if the block sizes do not divide the map's sizes.
    """
    n, c, h, w = (base.shape[p] for p in layout)
    if h % block[0] or w % block[1]:
        return None
    split = identity_view(base).transposed(layout)
    blocks = split.reshaped((n, c, h // block[0], block[0], w // block[1], block[1]))
    return blocks.transposed((3, 5, 0, 1, 2, 4)) if blocks is not None else None


@rule("Transpose")
def _transpose_integers(new: Rewriter, o: Op) -> list[Value] | None:
    """Transpose quantized constants instead of the real numbers for which they stand."""
    source = new.producer(o.first)
    if source is None or source.op != "DequantizeLinear" or source["block_size"]:
        return None
    integers = source.first.const
    if integers is None or not new.has_one_use(o.first):
        return None
    moved = new.constant(np.ascontiguousarray(integers.transpose(o["perm"])))
    axis = list(o["perm"]).index(source["axis"] % integers.ndim)
    return new.emit(o, "DequantizeLinear", [moved, *source.inputs[1:]], axis=axis)


def _elementwise_chain(new: Rewriter, value: Value | None) -> tuple[list[Op], Op | None]:
    """Return (chain, producer): at most four elementwise operators that lead to a value, last first, and the
    producer of their input. The producer is None where a value between has another use."""
    chain: list[Op] = []
    o = new.producer(value)
    while o is not None and o in UNARY and new.is_float32(o) and len(chain) < 4:
        if not new.has_one_use(o.outputs[0]):
            return chain, None
        chain.append(o)
        value = o.inputs[0]
        o = new.producer(value)
    return chain, o if value is not None and new.has_one_use(value) else None


def _apply_chain(new: Rewriter, o: Op, chain: list[Op], y: Value) -> Value:
    """Apply the operators of a chain to another value."""
    for link in reversed(chain):
        y = new.step(o, link.op, [y, *link.inputs[1:]], y.shape, **link.attrs)
    return y


@rule("Transpose", figure="saves two passes over the array")
def _dilated(new: Rewriter, o: Op) -> list[Value] | None:
    """Replace SpaceToBatch, Conv, BatchToSpace by a dilated Conv."""
    inner = _view(new, o.first) if new.is_float32(o) else None
    chain, conv = _elementwise_chain(new, inner.base) if inner is not None else ([], None)
    if inner is None or conv is None or conv.op != "Conv" or len(inner.base.shape) != 4:
        return None
    windows = window_of(conv)
    if windows is None or any(windows.pads) or set(windows.strides) != {1}:
        return None
    source = _view(new, conv.first)
    if source is None or len(source.base.shape) != 4 or source.base is conv.first:
        return None
    for layout in (_NCHW, _NHWC):
        x = source.base
        rows, columns = (x.shape[layout[i]] // conv.first.shape[i] for i in (2, 3))
        if min(rows, columns) < 1 or max(rows, columns) == 1:
            continue
        batches = _space_to_batch(x, layout, (rows, columns))
        if batches is not None and batches.canonical() == source.canonical() and batches.size == source.size:
            return _with_dilations(new, o, conv, chain, transposed_view(x, layout), (rows, columns))
    return None


def _with_dilations(
    new: Rewriter, o: Op, conv: Op, chain: list[Op], source: View, block: tuple[int, int]
) -> list[Value] | None:
    """Return the dilated convolution of `source`, where `o` completes the BatchToSpace."""
    rows, columns = block
    count, m, h, w = conv.outputs[0].shape
    n = source.shape[0]
    x = source.base
    if count != n * rows * columns:
        return None
    output = identity_view(conv.outputs[0])
    reshaped = output.reshaped(o.first.shape)
    parts = output.reshaped((rows, columns, n, m, h, w))
    if reshaped is None or parts is None:
        return None
    target = reshaped.transposed(o["perm"]).canonical()
    layouts = [
        layout
        for layout, perm in ((_NCHW, (2, 3, 4, 0, 5, 1)), (_NHWC, (2, 4, 0, 5, 1, 3)))
        if parts.transposed(perm).canonical() == target
    ]
    if not layouts:
        return None
    dilations = conv["dilations"] or [1, 1]
    if source.axes != _NCHW:
        x = new.step(o, "Transpose", [x], source.shape, perm=list(source.axes or ()))
    shape = (n, m, h * rows, w * columns)
    attrs = {**conv.attrs, "dilations": [dilations[0] * rows, dilations[1] * columns]}
    y = _apply_chain(new, o, chain, new.step(o, "Conv", [x, *conv.inputs[1:]], shape, **attrs))
    if layouts[0] == _NHWC:
        y = new.step(o, "Transpose", [y], [shape[i] for i in inverse(_NHWC)], perm=list(inverse(_NHWC)))
    return new.result(o, y)


@rule("Transpose", figure="saves a pass over the array")
def _permuted_columns(new: Rewriter, o: Op) -> list[Value] | None:
    """Permute the columns of constant weights instead of each row of their product."""
    if not new.is_float32(o):
        return None
    after, split = _elementwise_chain(new, o.first)
    if split is None or split.op != "Reshape":
        return None
    before, product = _elementwise_chain(new, split.first)
    if product is None or not is_static(product.outputs[0].shape):
        return None
    columns = _column_permutation(product.outputs[0].shape, o.first.shape, [int(p) for p in o["perm"]])
    y = _with_columns(new, o, product, columns) if columns is not None else None
    if y is None:
        return None
    return [new.reshape(o, _apply_chain(new, o, [*after, *before], y), o.outputs[0].shape)]


def _column_permutation(matrix: tuple[int, ...], split: tuple[int, ...], perm: list[int]) -> Array | None:
    """Return the permutation of columns that a Reshape, a Transpose and a second Reshape apply to a matrix: for
    each column of the result, its column in the matrix.

    matrix, split: the shapes of the matrix and of its reshape.
    Returns None where elements move between rows, where rows are permuted in different ways, and for more than
    2**20 columns or 2**22 elements.
    """
    matrix, split = plain(matrix), plain(split)
    if len(matrix) != 2 or matrix[1] > 1 << 20 or matrix[0] * matrix[1] > 1 << 22:
        return None
    indices = np.arange(matrix[0] * matrix[1]).reshape(split).transpose(perm).reshape(matrix)
    columns: Array = indices[0]
    starts = np.arange(matrix[0])[:, None] * matrix[1]
    return columns if columns.max() < matrix[1] and (indices == columns + starts).all() else None


def _with_columns(new: Rewriter, o: Op, product: Op, columns: Array) -> Value | None:
    """Return a matrix product with the columns of its constant weights and bias permuted."""
    weights = product.inputs[1] if product.op in ("MatMul", "Gemm") else None
    bias = product.input(2) if product.op == "Gemm" else None
    if weights is None or weights.const is None or weights.const.ndim != 2 or set(product.attrs) - {"transB"}:
        return None
    if weights.const.nbytes > _MAX_WEIGHT_BYTES:
        return None
    axis = 0 if product.op == "Gemm" and product["transB"] else 1
    inputs = [product.inputs[0], new.constant(np.take(weights.const, columns, axis))]
    if bias is not None:
        if bias.const is None or bias.const.size not in (1, len(columns)):
            return None
        inputs.append(bias if bias.const.size == 1 else new.constant(bias.const.reshape(-1)[columns]))
    return new.step(o, product.op, inputs, product.outputs[0].shape, **product.attrs)
