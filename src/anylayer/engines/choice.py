"""Which engines are worth a trial on a graph, and whether their answers agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from anylayer.engines import ENGINES, SPECIALISTS
from anylayer.errors import AnyLayerError, EngineError
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


Answers = Mapping[str, Array]
Run = Callable[[Sequence[Array]], Answers]


def agree(got: Answers, want: Answers) -> bool:
    """Return whether outputs are equal: floats to 1e-4 of the largest value of each, NaN where the other is."""
    return not any(_difference(got[name], array) for name, array in want.items())


def _difference(got: Array, want: Array) -> str:
    """Return how an output differs; "" where it does not."""
    if got.shape != want.shape:
        return f"has shape {got.shape}, expected {want.shape}"
    if want.dtype.kind != "f":
        count = int(np.count_nonzero(got != want))
        return f"differs in {count} of {want.size} values" if count else ""
    finite = np.isfinite(want)
    scale = float(np.abs(want, where=finite, out=np.zeros(want.shape, want.dtype)).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        off = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0, np.abs(got - want))
    worst = float(np.max(off, initial=0.0))
    return "" if worst <= _TOLERANCE * max(scale, 1e-6) else f"is off by {worst:.3g} of {scale:.3g}"


def trusted(runs: Mapping[str, Run], arrays: Sequence[Array], definition: Run) -> tuple[list[str], dict[str, str]]:
    """Return the engines whose answers count, and how each of the others differs. One that stops is in neither.

    Where the engines do not agree, the layers in NumPy decide. Where a change of the inputs in their last bits
    moves the answers as far, a jump (a threshold, a sort) has made the difference: then all engines count. Raises
    the first EngineError where all engines stop.
    """
    answers: dict[str, Answers] = {}
    errors: list[EngineError] = []
    for name, run in runs.items():
        try:
            answers[name] = run(arrays)
        except EngineError as error:
            errors.append(error)
    if not answers:
        raise errors[0]
    first = next(iter(answers.values()))
    if all(agree(found, first) for found in answers.values()):
        return [*answers], {}
    wrong = _judged(answers, arrays, definition)
    if len(wrong) == len(answers) or _jumps(runs, answers, arrays):
        return [*answers], {}
    return [name for name in answers if name not in wrong], wrong


def _judged(answers: Mapping[str, Answers], arrays: Sequence[Array], definition: Run) -> dict[str, str]:
    """Return the engines that differ from the layers in NumPy, each with how it does."""
    try:
        want = definition(arrays)
    except AnyLayerError:
        return {}
    wrong: dict[str, str] = {}
    for name, found in answers.items():
        differences = ((output, _difference(found[output], array)) for output, array in want.items())
        output, text = next(((o, t) for o, t in differences if t), ("", ""))
        if text:
            wrong[name] = f"output '{output}' {text}, compared with NumPy"
    return wrong


def _jumps(runs: Mapping[str, Run], answers: Mapping[str, Answers], arrays: Sequence[Array]) -> bool:
    """Return whether inputs changed in their last bits change an engine's own answers."""
    noise = np.random.default_rng(1)
    for name, found in answers.items():
        moved = [
            (x * (1 + 1e-6 * noise.standard_normal(x.shape))).astype(x.dtype) if x.dtype.kind == "f" else x
            for x in arrays
        ]
        if not agree(runs[name](moved), found):
            return True
    return False
