"""Reductions, and operators that normalize over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from anylayer.generators.pytorch.code import BUFFERS, Code, dtype_of, first, in_tuple, number
from anylayer.generators.pytorch.operators import formulas, writes
from anylayer.graph import Op
from anylayer.graph.facts import reduced_axes
from anylayer.writers._target import present, require

_REDUCTIONS = {
    "ReduceSum": "torch.sum({x}, {how})",
    "ReduceMean": "torch.mean({x}, {how})",
    "ReduceMax": "torch.amax({x}, {how})",
    "ReduceMin": "torch.amin({x}, {how})",
    "ReduceL1": "torch.sum(torch.abs({x}), {how})",
    "ReduceL2": "torch.sqrt(torch.sum(torch.square({x}), {how}))",
    "ReduceSumSquare": "torch.sum(torch.square({x}), {how})",
    "ReduceLogSum": "torch.log(torch.sum({x}, {how}))",
    "ReduceLogSumExp": "torch.logsumexp({x}, {how})",
}
_BY_RUNS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
"""Reductions that may be computed over one axis after another."""


@writes(*_REDUCTIONS, unread=(1,))
def _reduce(code: Code, op: Op) -> str:
    x, axes = first(op), reduced_axes(op)
    if axes is None:
        require(op["noop_with_empty_axes"], "a reduction whose axes are computed")
        return code.tensor(x)
    keep = f"keepdim={bool(op['keepdims'])}"
    text = code.tensor(x)
    if not axes:
        return text
    sums = op.op in ("ReduceSum", "ReduceL1", "ReduceSumSquare")
    if x.dtype.kind in "iu":
        require(sums or op.op in ("ReduceMax", "ReduceMin"), f"{op.op} of integers")
        keep += f", dtype={dtype_of(x.dtype)}" if sums else ""
    for run in reversed(_runs(axes)) if op.op in _BY_RUNS else [axes]:
        text = _REDUCTIONS[op.op].format(x=text, how=f"dim={in_tuple(map(str, run))}, {keep}")
    return text


def _runs(axes: Sequence[int]) -> list[list[int]]:
    """Return the axes in runs of consecutive ones. torch needs up to 60 times as long for several runs at once."""
    runs: list[list[int]] = []
    for axis in sorted(axes):
        if runs and runs[-1][-1] == axis - 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


@writes("ReduceProd", unread=(1,))
def _product(code: Code, op: Op) -> str:
    x, axes = first(op), present(reduced_axes(op), "a reduction whose axes are computed")
    text = code.tensor(x)
    how = f"keepdim={bool(op['keepdims'])}, dtype={dtype_of(x.dtype)}"
    for axis in sorted(axes, reverse=True):
        text = f"torch.prod({text}, dim={axis}, {how})"
    return text


formulas({"Softmax": "F.softmax({0}, dim={axis})", "LogSoftmax": "F.log_softmax({0}, dim={axis})"})


@writes("LRN")
def _lrn(code: Code, op: Op) -> str:
    x, size = first(op), int(op["size"])
    alpha, beta, bias = (number(np.float32(op[k])) for k in ("alpha", "beta", "bias"))
    if size % 2:
        data, after = code.tensor(x), ""
        if x.dtype == np.float16:  # PyTorch has no kernel for it on a processor
            data, after = f"{data}.float()", ".half()"
        return f"F.local_response_norm({data}, {size}, alpha={alpha}, beta={beta}, k={bias}){after}"
    before = (size - 1) // 2
    pads = in_tuple(map(str, [0, 0] * (len(x.shape) - 2) + [before, size - 1 - before]))
    data = code.tensor(x)
    sums = f"F.pad(torch.square({data}), {pads}).unfold(1, {size}, 1).sum(-1)"
    return f"{data} / torch.pow({bias} + {alpha} / {size} * {sums}, {beta})"


@writes("BatchNormalization")
def _batch_norm(code: Code, op: Op) -> str:
    x = first(op)
    require(len(op.outputs) == 1 and not op["training_mode"], "a BatchNormalization for training")
    values = op.inputs[1:5]
    arrays = [v.const for v in values if v is not None]
    epsilon = number(np.float32(op["epsilon"]))
    rank = len(x.shape)
    constant = [a for a in arrays if a is not None and a.dtype == np.float32]
    if x.dtype == np.float32 and len(constant) == 4 and rank in (2, 3, 4, 5):
        names = ("weight", "bias", *BUFFERS)
        state = dict(zip(names, [*constant, np.array(0, np.int64)]))
        plain = code.weights.is_constant(constant[0]) and (constant[0] == 1).all() and not constant[1].any()
        for name in names[:2] if plain else ():
            del state[name]
        options = f"{epsilon}{', affine=False' if plain else ''}"
        text = f"nn.BatchNorm{max(rank - 2, 1)}d({x.shape[1]}, eps={options})"
        return f"{code.module(text, state, values)}({code.tensor(x)})"
    scale, bias, mean, variance = (_wide(code.tensor(v), rank) for v in values)
    text = f"({code.tensor(x)} - {mean}) / torch.sqrt({variance} + {epsilon}) * {scale} + {bias}"
    kinds = {v.dtype for v in values if v is not None} | {x.dtype}
    return text if len(kinds) == 1 else f"({text}).to({dtype_of(x.dtype)})"


@writes("InstanceNormalization")
def _instance_norm(code: Code, op: Op) -> str:
    x, values = first(op), op.inputs[1:3]
    arrays = [v.const for v in values if v is not None]
    epsilon = number(np.float32(op["epsilon"]))
    require(math.prod(x.shape[2:]) > 1, "an InstanceNormalization of one element per channel")
    constant = [a for a in arrays if a is not None and a.dtype == np.float32]
    if x.dtype == np.float32 and len(constant) == 2 and len(x.shape) in (3, 4, 5):
        text = f"nn.InstanceNorm{len(x.shape) - 2}d({x.shape[1]}, eps={epsilon}, affine=True)"
        return f"{code.module(text, dict(zip(('weight', 'bias'), constant)), values)}({code.tensor(x)})"
    scale, bias = (code.tensor(v) for v in values)
    return f"F.instance_norm({code.tensor(x)}, weight={scale}, bias={bias}, eps={epsilon})"


@writes("LayerNormalization")
def _layer_norm(code: Code, op: Op) -> str:
    x = first(op)
    require(len(op.outputs) == 1, "the statistics of a LayerNormalization")
    axis = op["axis"] % len(x.shape)
    epsilon = number(np.float32(op["epsilon"]))
    axes = in_tuple(str(a) for a in range(axis, len(x.shape)))
    data, scale = code.tensor(x), code.tensor(op.inputs[1], "scale")
    centered = code.new("centered")
    code.line(f"{centered} = {data} - torch.mean({data}, dim={axes}, keepdim=True)")
    spread = f"torch.sqrt(torch.mean(torch.square({centered}), dim={axes}, keepdim=True) + {epsilon})"
    shift = f" + {code.tensor(op.inputs[2], 'bias')}" if op.input(2) is not None else ""
    return f"{centered} / {spread} * {scale}{shift}"


def _wide(text: str, rank: int) -> str:
    """Return a vector with one number per channel as an array that broadcasts to `rank` axes."""
    return f"{text}.reshape({in_tuple(['-1', *['1'] * (rank - 2)])})"
