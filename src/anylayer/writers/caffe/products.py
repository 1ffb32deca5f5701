"""Matrix products with constants, and recurrent layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.graph import Op, Value
from anylayer.network import Array
from anylayer.writers.caffe.builder import Builder, Form
from anylayer.writers.caffe.views import Mix, View


def _gemm(b: Builder, op: Op) -> None:
    weights = b.const(op.inputs[1])
    b.need(weights is not None and not op.attrs.get("transA"), "no product of two computed matrices")
    if weights is None:
        return
    rows = weights if op.attrs.get("transB") else weights.T
    rows = rows * np.float32(op.attrs.get("alpha", 1.0))
    bias = None
    if len(op.inputs) > 2 and op.inputs[2] is not None:
        bias = b.const(op.inputs[2])
        b.need(bias is not None, "no bias that is computed")
        beta = np.float32(op.attrs.get("beta", 1.0))
        bias = np.broadcast_to(np.asarray(bias).reshape(-1) * beta, (len(rows),))
        b.need(np.asarray(op.inputs[2].const).size in (1, len(rows)), "no bias for each row of a batch")
    b.give(op.outputs[0], inner_product(b, op.inputs[0], rows, bias))


def inner_product(b: Builder, value: Value | None, rows: Array, bias: Array | None) -> View:
    """`rows` (num_output, K) times each (K,) of a value (N, K), whose order on its blob the weights take over."""
    view = b.view(value)
    n = view.base[0] if view.base else 1
    order = view.order() if view.moves_only and n == view.shape[0] else None
    length = math.prod(view.base[1:])
    if order is not None and length == rows.shape[1] and len(view.base) > 1:
        first = order.reshape(n, -1)[0]
        if (order.reshape(n, -1) == first + np.arange(n)[:, None] * length).all() and (first < length).all():
            if not (first == np.arange(length)).all():
                turned = np.empty_like(rows)
                turned[:, first] = rows
                rows = turned
            view = View(view.name, view.base)
    x = b.settled(view)
    params: dict[str, Any] = {"num_output": len(rows)}
    if bias is None:
        params["bias_term"] = False
    blobs = [np.ascontiguousarray(rows), *([] if bias is None else [np.ascontiguousarray(bias)])]
    return b.add("InnerProduct", [x], (x.base[0], len(rows)), {"inner_product_param": params}, blobs)


def _matmul(b: Builder, op: Op) -> None:
    left, right = b.const(op.inputs[0]), b.const(op.inputs[1])
    if right is not None:
        matrix = right.reshape(right.shape[-2:]) if right.ndim > 2 and math.prod(right.shape[:-2]) == 1 else right
        b.need(matrix.ndim == 2, f"no product with weights {list(right.shape)}, one matrix for each sample")
        view = b.view(op.inputs[0])
        rank = len(view.shape)
        if rank == 2:
            b.give(op.outputs[0], inner_product(b, op.inputs[0], matrix.T, None))
            return
        if rank == 4:
            b.give(op.outputs[0], view.then(Mix(3, np.ascontiguousarray(matrix.T))))
            return
        b.need(rank > 2, f"no product of {list(view.shape)}")
        x = b.settled(view)
        params = {"num_output": matrix.shape[1], "bias_term": False, "axis": rank - 1}
        shape = (*x.base[:-1], matrix.shape[1])
        blobs = [np.ascontiguousarray(matrix.T)]
        b.give(op.outputs[0], b.add("InnerProduct", [x], shape, {"inner_product_param": params}, blobs))
        return
    b.need(left is not None, "no product of two computed matrices")
    if left is None:
        return
    view = b.view(op.inputs[1])
    matrix = left.reshape(left.shape[-2:]) if math.prod(left.shape[:-2]) == 1 else left
    b.need(matrix.ndim == 2 and len(view.shape) > 2, f"no product of {list(left.shape)} and {list(view.shape)}")
    b.give(op.outputs[0], view.then(Mix(len(view.shape) - 2, matrix)))


def _lstm(b: Builder, op: Op) -> None:
    """Caffe's LSTM, whose gates are i, f, o, g, with a second bottom that is 0 where a sequence begins."""
    x = b.settled(op.inputs[0])
    given = [*op.inputs, *[None] * 8]
    w, r, bias = (b.const(v) for v in given[1:4])
    plain = op.attrs.get("direction", "forward") == "forward" and not op.attrs.get("clip")
    plain = plain and list(op.attrs.get("activations") or ["Sigmoid", "Tanh", "Tanh"]) == [
        "Sigmoid",
        "Tanh",
        "Tanh",
    ]
    b.need(plain, "no LSTM but the forward one of sigmoid and tanh")
    b.need(w is not None and r is not None, "no LSTM by weights that are computed")
    b.need(given[4] is None and given[7] is None and not op.attrs.get("input_forget"), "no LSTM with peepholes, "
           "sequence lengths or coupled gates")  # fmt: skip
    starts = [b.const(v) for v in given[5:7]]
    zero = all(v is None or (s is not None and not s.any()) for v, s in zip(given[5:7], starts))
    b.need(zero, "no LSTM that starts from other than zeros")
    b.need(not any(b.uses.get(v) for v in op.outputs[1:]), "no LSTM whose last state is read")
    if w is None or r is None:
        return
    steps, batch = x.base[:2]
    d = int(op.attrs["hidden_size"])
    gates = np.arange(4 * d).reshape(4, d)[[0, 2, 1, 3]].reshape(-1)  # ONNX: i, o, f, c
    both = np.zeros(4 * d, np.float32) if bias is None else bias[0, : 4 * d] + bias[0, 4 * d :]
    cont = _continues(b, steps, batch)
    blobs = [w[0][gates], both[gates], r[0][gates]]
    params = {"recurrent_param": {"num_output": d}}
    y = b.add("LSTM", [x, cont], (steps, batch, d), params, blobs)
    b.give(op.outputs[0], y)


def _continues(b: Builder, steps: int, batch: int) -> View:
    """(steps, batch): 0 in the first step, where the sequences begin, then 1."""
    parts = []
    for value, count in ((0.0, 1), (1.0, steps - 1)):
        if count:
            dims = {"shape": {"dim": [count, batch]}, "data_filler": {"type": "constant", "value": value}}
            parts.append(b.add("DummyData", [], (count, batch), {"dummy_data_param": dims}, suffix="cont"))
    if len(parts) == 1:
        return parts[0]
    return b.add("Concat", parts, (steps, batch), {"concat_param": {"axis": 0}}, suffix="cont")


PRODUCTS: dict[str, Form] = {"Gemm": _gemm, "MatMul": _matmul, "LSTM": _lstm}
