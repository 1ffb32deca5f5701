"""Matrix products with constants, and LSTM."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.graph import Op, Value
from anylayer.network import Array
from anylayer.writers.caffe.builder import CaffeBuilder, CaffeLowering
from anylayer.writers.caffe.views import AxisProduct, BlobView


def _gemm(b: CaffeBuilder, op: Op) -> BlobView:
    """Add an InnerProduct for a product with constant weights and an optional bias per output."""
    weights = None if op["transA"] else op.constant(1)
    weights = b.given(weights, "no product of two computed matrices")
    rows = weights if op["transB"] else weights.T
    rows = rows * np.float32(op["alpha"])
    bias = None
    if op.input(2) is not None:
        one = b.given(op.constant(2), "no Gemm with a computed bias")
        b.need(one.size in (1, len(rows)), "no bias for each row of a batch")
        bias = np.broadcast_to(one.reshape(-1) * np.float32(op["beta"]), (len(rows),))
    return inner_product(b, op.inputs[0], rows, bias)


def inner_product(b: CaffeBuilder, value: Value | None, rows: Array, bias: Array | None) -> BlobView:
    """Add an InnerProduct: value (N, K) times the transpose of `rows` (num_output, K), plus `bias` (num_output,).

    If the value is a rearrangement of a blob (N, ...) within each sample, the columns of `rows` are permuted
    instead.
    """
    view = b.view(value)
    n = view.base[0] if view.base else 1
    indices = view.element_indices() if view.is_rearrangement and n == view.shape[0] else None
    length = math.prod(view.base[1:])
    if indices is not None and length == rows.shape[1] and len(view.base) > 1:
        indices = indices.reshape(n, -1)
        first = indices[0]
        if (indices == first + np.arange(n)[:, None] * length).all() and (first < length).all():
            if not (first == np.arange(length)).all():
                permuted = np.empty_like(rows)
                permuted[:, first] = rows
                rows = permuted
            view = BlobView(view.name, view.base)
    x = b.materialized(view)
    params: dict[str, Any] = {"num_output": len(rows)}
    if bias is None:
        params["bias_term"] = False
    blobs = [np.ascontiguousarray(rows), *([] if bias is None else [np.ascontiguousarray(bias)])]
    return b.add("InnerProduct", [x], (x.base[0], len(rows)), {"inner_product_param": params}, blobs)


def _matmul(b: CaffeBuilder, op: Op) -> BlobView:
    """Add the layers of a product with one constant matrix on either side."""
    left, right = op.constant(0), op.constant(1)
    if right is not None:
        matrix = right.reshape(right.shape[-2:]) if right.ndim > 2 and math.prod(right.shape[:-2]) == 1 else right
        b.need(matrix.ndim == 2, f"no product with one matrix per sample, whose weights are {list(right.shape)}")
        view = b.view(op.inputs[0])
        rank = len(view.shape)
        if rank == 2:
            return inner_product(b, op.inputs[0], matrix.T, None)
        if rank == 4:
            return view.then(AxisProduct(3, np.ascontiguousarray(matrix.T)))
        b.need(rank > 2, f"no product of {list(view.shape)}")
        x = b.materialized(view)
        params = {"num_output": matrix.shape[1], "bias_term": False, "axis": rank - 1}
        shape = (*x.base[:-1], matrix.shape[1])
        blobs = [np.ascontiguousarray(matrix.T)]
        return b.add("InnerProduct", [x], shape, {"inner_product_param": params}, blobs)
    left = b.given(left, "no product of two computed matrices")
    view = b.view(op.inputs[1])
    matrix = left.reshape(left.shape[-2:]) if math.prod(left.shape[:-2]) == 1 else left
    b.need(matrix.ndim == 2 and len(view.shape) > 2, f"no product of {list(left.shape)} and {list(view.shape)}")
    return view.then(AxisProduct(len(view.shape) - 2, matrix))


def _lstm(b: CaffeBuilder, op: Op) -> BlobView:
    """Add Caffe's LSTM. Its gates are in the order i, f, o, g; its second bottom is 0 where a sequence begins.

    Raises LayerError for other directions, activations, initial states, and for a last state that has consumers.
    """
    x = b.materialized(op.inputs[0])
    bias = op.constant(3)
    b.need(bias is not None or op.input(3) is None, "no LSTM with a computed bias")
    usual = ["Sigmoid", "Tanh", "Tanh"]
    is_default = op["direction"] == "forward" and not op["clip"]
    is_default = is_default and list(op["activations"] or usual) == usual
    b.need(is_default, "no LSTM other than forward with sigmoid and tanh")
    w, r = (b.given(op.constant(i), "no LSTM with computed weights") for i in (1, 2))
    b.need(op.input(4) is None and op.input(7) is None and not op["input_forget"], "no LSTM with peepholes, "
           "sequence lengths or coupled gates")  # fmt: skip
    starts = [v.const for i in (5, 6) if (v := op.input(i)) is not None]
    b.need(
        all(start is not None and not start.any() for start in starts),
        "no LSTM with initial states other than zeros",
    )
    b.need(
        not any(v in b.consumers for v in op.outputs[1:]), "no LSTM with a last state that other operators read"
    )
    steps, batch = x.base[:2]
    d = int(op["hidden_size"])
    gates = np.arange(4 * d).reshape(4, d)[[0, 2, 1, 3]].reshape(-1)  # ONNX: i, o, f, c
    both = np.zeros(4 * d, np.float32) if bias is None else bias[0, : 4 * d] + bias[0, 4 * d :]
    cont = _continuation(b, steps, batch)
    blobs = [w[0][gates], both[gates], r[0][gates]]
    params = {"recurrent_param": {"num_output": d}}
    return b.add("LSTM", [x, cont], (steps, batch, d), params, blobs)


def _continuation(b: CaffeBuilder, steps: int, batch: int) -> BlobView:
    """Return a blob (steps, batch) that is 0 in the first step, where the sequences begin, and 1 after it."""
    if not b.dialect.has("DummyData"):
        b.need(b.dialect.has("ContinuationIndicator"), "no layer that marks the start of a sequence")
        params = {"continuation_indicator_param": {"time_step": steps, "batch_size": batch}}
        return b.add("ContinuationIndicator", [], (steps, batch), params, suffix="cont")
    parts = []
    for value, count in ((0.0, 1), (1.0, steps - 1)):
        if count:
            dims = {"shape": {"dim": [count, batch]}, "data_filler": {"type": "constant", "value": value}}
            parts.append(b.add("DummyData", [], (count, batch), {"dummy_data_param": dims}, suffix="cont"))
    if len(parts) == 1:
        return parts[0]
    return b.add("Concat", parts, (steps, batch), {"concat_param": {"axis": 0}}, suffix="cont")


PRODUCTS: dict[str, CaffeLowering] = {"Gemm": _gemm, "MatMul": _matmul, "LSTM": _lstm}
