"""Which engines are worth a trial on a graph, and whether their answers agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from anylayer.engines import ENGINES, SPECIALISTS
from anylayer.network import Array
from anylayer.tracing import Graph, Op

_TOLERANCE = 1e-4


def candidates(graphs: Sequence[Graph]) -> list[str]:
    """The engines that "auto" compiles and measures for a network of these graphs."""
    return [*ENGINES, *SPECIALISTS] if winograd_rules(graphs) else list(ENGINES)


def winograd_rules(graphs: Sequence[Graph]) -> bool:
    """Whether 1.5 G multiply-adds, and two thirds of all, are in 3x3 convolutions that ncnn computes by Winograd's
    minimal filtering.

    Its seconds to the better of ONNX Runtime's and OpenVINO's, one thread: HED and VGG-16 (0.99 of all) 0.48,
    Darknet-19 (0.95) 0.54; but ResNet-50 (0.48) 0.86, GoogLeNet (0.61, 1 G) 0.94, networks below 0.1 G 1.1 to 1.4.
    """
    total = large = 0
    for op in (o for g in graphs for o in g.ops):
        count = _multiplications(op)
        total += count
        large += count if count and _is_winograd(op) else 0
    return large >= 1.5e9 and large >= total * 2 / 3


def _multiplications(op: Op) -> int:
    weights = op.inputs[1] if op.op in ("Conv", "ConvTranspose", "Gemm", "MatMul") else None
    if weights is None or weights.const is None:
        return 0
    seen = op.inputs[0] if op.op == "ConvTranspose" else op.outputs[0]
    cells = seen.shape[2:] if seen is not None and op.op.startswith("Conv") else op.outputs[0].shape[:-1]
    return weights.const.size * math.prod(cells) if all(isinstance(n, int) for n in cells) else 0


def _is_winograd(op: Op) -> bool:
    weights = op.inputs[1]
    return (
        op.op == "Conv"
        and weights is not None
        and tuple(weights.shape[2:]) == (3, 3)
        and min(weights.shape[:2]) >= 16
        and op.attrs.get("group", 1) == 1
        and set(op.attrs.get("strides") or [1]) == {1}
        and set(op.attrs.get("dilations") or [1]) == {1}
        and op.outputs[0].shape[0] == 1
    )


def agree(got: Mapping[str, Array], want: Mapping[str, Array]) -> bool:
    """Whether outputs are equal to 1e-4 of the largest value of each."""
    for name, array in want.items():
        scale = float(np.abs(array).max(initial=0.0))
        off = float(np.abs(got[name] - array).max(initial=0.0))
        if not off <= _TOLERANCE * max(scale, 1e-6):
            return False
    return True
