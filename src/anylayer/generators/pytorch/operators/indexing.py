"""Operators that read or write elements at indices, and that sort."""

from __future__ import annotations

import math

import numpy as np

from anylayer.generators.pytorch.code import Code, dtype_of, first, number
from anylayer.generators.pytorch.operators import formulas, writes
from anylayer.graph import Op, Value
from anylayer.graph.facts import integers
from anylayer.graph.facts import number as constant_number
from anylayer.graph.sizes import is_static
from anylayer.writers._target import present, require

_ROW = 16
"""The smallest number of elements per index for which index_select is faster than indexing."""


def _indices(code: Code, value: Value | None, x: Value, axis: int) -> str:
    """Return int64 indices that count from the front, along an axis of `x`."""
    value, size = present(value), x.shape[axis]
    if value.const is not None:
        indices = value.const.astype(np.int64)
        if (indices < 0).any():
            require(isinstance(size, int), "negative indices along a dynamic axis")
            indices = indices + (indices < 0) * int(str(size))
        return code.array(
            indices, "indices", value if value.dtype == np.int64 and indices is value.const else None
        )
    text = code.tensor(value)
    text = text if value.dtype == np.int64 else f"{text}.long()"
    size = size if isinstance(size, int) else f"{code.tensor(x)}.shape[{axis}]"
    return f"torch.where({text} < 0, {text} + {size}, {text})"


@writes("Gather")
def _gather(code: Code, op: Op) -> str:
    x, indices = first(op), op.inputs[1]
    axis = op["axis"] % max(len(x.shape), 1)
    if indices is not None and indices.const is not None and indices.const.size == 1:
        at = int(indices.const.reshape(-1)[0])
        if indices.const.ndim == 0:
            return f"{code.tensor(x)}.select({axis}, {at})"
    if indices is not None and indices.const is not None and len(indices.shape) == 1:
        return f"{code.tensor(x)}.index_select({axis}, {_indices(code, indices, x, axis)})"
    indices = present(indices)
    table = code.tensor(x, "table")
    if len(indices.shape) and is_static(x.shape[axis:]) and math.prod(x.shape[axis + 1 :]) >= _ROW:
        rows = f"{table}.index_select({axis}, {_indices(code, indices, x, axis)}.flatten())"
        return rows if len(indices.shape) == 1 else f"{rows}.unflatten({axis}, {code.tensor(indices)}.shape)"
    text = code.tensor(indices)
    text = text if indices.dtype == np.int64 else f"{text}.long()"
    return f"{table}[{', '.join([':'] * axis + [text])}]"


@writes("WeightedRows")
def _weighted_rows(code: Code, op: Op) -> str:
    """Write the weighted sums of rows that `forms` recognized."""
    table, *rest = op.inputs
    count, size = len(rest) // 2, first(op).shape[0]
    at, weights = code.new("rows"), code.new("weights")
    for name, values in ((at, rest[:count]), (weights, rest[count:])):
        code.line(f"{name} = torch.stack([{', '.join(f'{code.tensor(v)}.flatten()' for v in values)}], 1)")
    indices = f"torch.where({at} < 0, {at} + {size}, {at})"
    summed = (
        f'F.embedding_bag({indices}, {code.tensor(table)}.contiguous(), mode="sum", per_sample_weights={weights})'
    )
    return f"{summed}.unflatten(0, {code.tensor(rest[0])}.shape)"


@writes("GatherElements")
def _gather_elements(code: Code, op: Op) -> str:
    x = first(op)
    axis = op["axis"] % len(x.shape)
    return f"torch.gather({code.tensor(x)}, {axis}, {_indices(code, op.inputs[1], x, axis)})"


@writes("GatherND")
def _gather_nd(code: Code, op: Op) -> str:
    x, indices = first(op), op.inputs[1]
    batch = int(op["batch_dims"])
    indices = present(indices)
    at = f"{code.tensor(indices, 'indices')}.long().unbind(-1)"
    if not batch:
        return f"{code.tensor(x)}[{at}]"
    require(is_static(x.shape[:batch]), "a GatherND with a dynamic batch")
    leading = []
    for axis in range(batch):
        shape = [1] * (len(indices.shape) - 1)
        shape[axis] = int(x.shape[axis])
        leading.append(f"torch.arange({x.shape[axis]}).reshape({tuple(shape)})")
    return f"{code.tensor(x)}[({', '.join(leading)}, *{at})]"


formulas({"NonZero": "torch.nonzero({0}).permute(1, 0)"})

_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@writes("ScatterElements")
def _scatter_elements(code: Code, op: Op) -> str:
    x, how = first(op), op["reduction"]
    axis = op["axis"] % len(x.shape)
    rest = f"{axis}, {_indices(code, op.inputs[1], x, axis)}, {code.tensor(op.inputs[2])}"
    if how == "none":
        return f"torch.scatter({code.tensor(x)}, {rest})"
    return f'torch.scatter_reduce({code.tensor(x)}, {rest}, reduce="{_REDUCE[how]}")'


@writes("ScatterND")
def _scatter_nd(code: Code, op: Op) -> str:
    how = op["reduction"]
    x, indices, updates = (present(v) for v in op.inputs)
    at = f"{code.tensor(indices, 'indices')}.long().unbind(-1)"
    if how in ("none", "add"):
        more = ", accumulate=True" if how == "add" else ""
        return f"{code.tensor(x)}.index_put({at}, {code.tensor(updates)}{more})"
    depth = indices.shape[-1]
    require(depth == len(x.shape) and is_static(x.shape), f"a ScatterND of slices with reduction '{how}'")
    steps = [math.prod(x.shape[i + 1 :]) for i in range(depth)]
    flat = " + ".join(f"i{k} * {s}" for k, s in enumerate(steps))
    names = [code.new(f"index_{k}") for k in range(depth)]
    code.line(f"{', '.join(names)}, = {at}")
    for k, name in enumerate(names):
        flat = flat.replace(f"i{k} ", f"torch.where({name} < 0, {name} + {x.shape[k]}, {name}) ")
    rest = f'0, ({flat}).reshape(-1), {code.tensor(updates)}.reshape(-1), reduce="{_REDUCE[how]}"'
    return f"{code.tensor(x)}.reshape(-1).scatter_reduce({rest}).reshape({code.sizes(x.shape)})"


@writes("TopK", unread=(1,))
def _top_k(code: Code, op: Op) -> list[str]:
    """Sort in a stable way: of equal elements the first comes first, which torch.topk does not promise."""
    x, k = first(op), present(constant_number(op.inputs[1]), "a TopK whose count is computed")
    axis = op["axis"] % len(x.shape)
    values, indices = (code.new(stem) for stem in ("values", "indices"))
    largest = bool(op["largest"])
    code.line(f"{values}, {indices} = torch.sort({code.tensor(x)}, dim={axis}, descending={largest}, stable=True)")
    return [f"{name}.narrow({axis}, 0, {int(k)})" for name in (values, indices)]


@writes("ArgMax", "ArgMin")
def _arg(code: Code, op: Op) -> str:
    x = first(op)
    axis = op["axis"] % len(x.shape)
    function, kept = f"torch.{op.op.lower()}", bool(op["keepdims"])
    data = code.tensor(x)
    if op["select_last_index"]:
        require(is_static([x.shape[axis]]), f"the last index of {op.op} along a dynamic axis")
        return f"{int(x.shape[axis]) - 1} - {function}(torch.flip({data}, ({axis},)), dim={axis}, keepdim={kept})"
    return f"{function}({data}, dim={axis}, keepdim={kept})"


@writes("OneHot", unread=(1, 2))
def _one_hot(code: Code, op: Op) -> str:
    indices, y = first(op), op.outputs[0]
    axis = op["axis"] % len(y.shape)
    off, on = present(op.constant(2), "a OneHot whose values are computed").reshape(-1)
    shape = [1] * len(y.shape)
    shape[axis] = int(y.shape[axis])
    classes = f"torch.arange({shape[axis]}).reshape({tuple(shape)})"
    data = f"{code.tensor(indices)}.long().remainder({shape[axis]}).unsqueeze({axis})"
    inside = f"{code.tensor(indices)}.unsqueeze({axis})"
    valid = f"({inside} >= {-shape[axis]}) & ({inside} < {shape[axis]})"
    chosen = f"({data} == {classes}) & {valid}"
    both = [f"torch.tensor({number(v)}, dtype={dtype_of(y.dtype)})" for v in (on, off)]
    return f"torch.where({chosen}, {', '.join(both)})"


@writes("Compress")
def _compress(code: Code, op: Op) -> str:
    axis = op["axis"]
    chosen = f"torch.nonzero({code.tensor(op.inputs[1])}).reshape(-1)"
    data = code.tensor(first(op))
    return f"{data}.reshape(-1)[{chosen}]" if axis is None else f"{data}.index_select({axis}, {chosen})"


@writes("CumSum", unread=(1,))
def _cumulative_sum(code: Code, op: Op) -> str:
    x, axes = first(op), present(integers(op.inputs[1]), "a CumSum whose axis is computed")
    axis = axes[0] % len(x.shape)
    data = code.tensor(x)
    data = f"torch.flip({data}, ({axis},))" if op["reverse"] else data
    found = f"torch.cumsum({data}, dim={axis}, dtype={dtype_of(x.dtype)})"
    if op["exclusive"]:
        found = f"{found} - {data}"
    return f"torch.flip({found}, ({axis},))" if op["reverse"] else found


@writes("ReverseSequence")
def _reverse_sequence(code: Code, op: Op) -> str:
    x = first(op)
    time, batch = int(op["time_axis"]), int(op["batch_axis"])
    require(is_static([x.shape[time]]), "a ReverseSequence of a dynamic length")
    steps, lengths = code.new("steps"), code.new("lengths")
    sizes = [1] * len(x.shape)
    sizes[time] = int(x.shape[time])
    wide = [1] * len(x.shape)
    wide[batch] = -1
    code.line(f"{steps} = torch.arange({x.shape[time]}).reshape({tuple(sizes)})")
    code.line(f"{lengths} = {code.tensor(op.inputs[1])}.reshape({tuple(wide)})")
    cells = f"torch.where({steps} < {lengths}, {lengths} - 1 - {steps}, {steps})"
    return f"torch.gather({code.tensor(x)}, {time}, {cells}.expand({code.sizes(x.shape)}))"
