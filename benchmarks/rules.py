"""python -m benchmarks.rules [NAME...]: measure what each rewrite rule saves on each of its engines.

Two graphs, one rewritten with all rules except the one in question and one with all rules, run in one process in
turns. The figure is the best time of each, because other processes can only make it slower. There is no
calibration: a rule is kept only if its ratio is clear.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.compile.selections import trace_with_selections
from anylayer.engines import load_engine
from anylayer.graph import Dim, Graph
from anylayer.network import TensorType
from anylayer.optimize import simplify as simplifier
from anylayer.optimize.order import load_rules
from anylayer.optimize.rules import RULES, Rule
from anylayer.tracing import trace_checked
from benchmarks.functions.detection import greedy_flags

ENGINES = ("onnxruntime", "openvino")
ROUNDS = 8

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """An expression that the rules named `rules` rewrite, the shapes of its inputs, and the engines that are
    measured. `open`: whether the first size of every input is open."""

    rules: str
    text: str
    function: Callable[..., Any]
    shapes: Sequence[Shape]
    open: bool = False
    engines: Sequence[str] = ENGINES


def best(
    programs: Sequence[Any], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], seconds: float
) -> list[float]:
    """Return the best seconds of each program; blocks of runs take turns."""
    found = [float("inf")] * len(programs)
    for _ in range(ROUNDS):
        for i, program in enumerate(programs):
            stop = time.perf_counter() + seconds / ROUNDS / len(programs)
            now = 0.0
            while now < stop:
                start = time.perf_counter()
                program(inputs, outputs)
                now = time.perf_counter()
                found[i] = min(found[i], now - start)
    return found


@contextmanager
def without(names: str) -> Iterator[None]:
    """Return the simplifier without some rules, which are given by the names of their functions."""
    load_rules("optimize")
    known = {r.apply.__name__ for r in RULES}
    missing = set(names.split()) - known
    if missing:
        raise SystemExit(f"there are no rules {', '.join(sorted(missing))}")
    kept = list(RULES)
    RULES[:] = [r for r in kept if r.apply.__name__ not in names.split()]
    try:
        yield
    finally:
        RULES[:] = kept


def kinds(graph: Graph) -> str:
    """Return the names of a graph's operators, with those of loops."""
    return " ".join(o.op if o.body is None else f"{o.op}({kinds(o.body)})" for o in graph.ops)


def measure(case: Case, engine: str, seconds: float, threads: int) -> tuple[float, float] | None:
    """Return the seconds before and after; None if the rules do not change the graph for this engine."""
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(s).astype(np.float32) for s in case.shapes]
    opened = Dim("N", 64)
    traced = [(opened, *s[1:]) if case.open else s for s in case.shapes]
    types = [TensorType.of(s, np.float32) for s in traced]
    graph = trace_with_selections(partial(trace_checked, lambda xs: [case.function(*xs)]), types)
    after = simplifier.simplify(graph, engine)
    with without(case.rules):
        before = simplifier.simplify(graph, engine)
    if kinds(before) == kinds(after):
        return None
    programs = [load_engine(engine).compile(g, threads) for g in (before, after)]
    outputs = programs[0](inputs, None)
    first, second = best(programs, inputs, outputs, seconds)
    return first, second


def f(value: float) -> np.float32:
    """Return a float32 number, so that nothing becomes float64."""
    return np.float32(value)


def suppressed(x: Any) -> Any:
    """Return the sum of the boxes that greedy NMS takes of N boxes, at most 300."""
    x1, y1, scores = x[:, 0] * f(200), x[:, 1] * f(200), x[:, 4]
    x2, y2 = x1 + abs(x[:, 2]) * f(40), y1 + abs(x[:, 3]) * f(40)
    areas = (x2 - x1) * (y2 - y1)
    order, keep = scores.argsort(kind="stable")[::-1], []
    while order.size > 0:
        i, rest = order[0], order[1:]
        keep.append(i)
        w = np.maximum(f(0), np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest]))
        h = np.maximum(f(0), np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest]))
        order = rest[w * h / (areas[i] + areas[rest] - w * h) <= f(0.7)]
    return areas[keep[:300]].sum()


def flags(x: Any) -> Any:
    """Return which of N boxes NMS in plain loops takes."""
    return greedy_flags(np.concatenate([x[:, :2], x[:, :2] + abs(x[:, 2:4]), x[:, 4:]], axis=1))


def repeated(x: Any) -> Any:
    """Repeat every pixel 2 x 2 times."""
    return np.repeat(np.repeat(x, 2, axis=2), 2, axis=3)


def copied(x: Any) -> Any:
    """Repeat every pixel 2 x 2 times by broadcasting."""
    n, c, h, w = x.shape
    return np.broadcast_to(x[:, :, :, None, :, None], (n, c, h, 2, w, 2)).reshape(n, c, 2 * h, 2 * w)


def places(old: int, new: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indices of the two neighbours, and the weight of the second, for linear interpolation with
    aligned corners.
    """
    at = np.arange(new, dtype=np.float32) * f((old - 1) / (new - 1))
    low = at.astype(int)
    return low, np.minimum(low + 1, old - 1), (at - low).astype(np.float32)


def bilinear(new: int) -> Callable[[Any], Any]:
    """Return a function that interpolates bilinearly, axis by axis."""

    def stretch(x: Any, axis: int) -> Any:
        low, high, part = places(x.shape[axis], new)
        part = part.reshape([-1 if i == axis else 1 for i in range(4)])
        return (1 - part) * np.take(x, low, axis) + part * np.take(x, high, axis)

    return lambda x: stretch(stretch(x, 3), 2)


def four_taps(new: int) -> Callable[[Any], Any]:
    """Return a function that interpolates from the four neighbours of every pixel, with a mesh of indices."""

    def taps(x: Any) -> Any:
        low, high, part = places(x.shape[2], new)
        y0, x0 = np.meshgrid(low, low, indexing="ij")
        y1, x1 = np.meshgrid(high, high, indexing="ij")
        fy, fx = part[:, None], part
        top = x[:, :, y0, x0] * (1 - fx) + x[:, :, y0, x1] * fx
        return top * (1 - fy) + (x[:, :, y1, x0] * (1 - fx) + x[:, :, y1, x1] * fx) * fy

    return taps


def along(x: Any, places: Any) -> Any:
    """Add up four selections of pixels, the same for all channels."""
    plane, total = x.reshape(1, 32, -1), 0
    for k in range(4):
        index = (np.abs(places[k]) * f(500)).astype(np.int64)
        total = total + np.take_along_axis(plane, np.broadcast_to(index[None, None], (1, 32, 3136)), axis=2)
    return total


def corners(x: Any) -> Any:
    """Concatenate every second pixel from each of four corners (the Focus layer of YOLOv5)."""
    return np.concatenate([x[:, :, i::2, j::2] for j in (0, 1) for i in (0, 1)], axis=1)


def spread(x: Any) -> Any:
    """Insert zeros between the pixels."""
    n, c, h, w = x.shape
    out = np.zeros((n, c, 2 * h, 2 * w), np.float32, like=x)
    out[:, :, ::2, ::2] = x
    return out


def softmax(x: Any) -> Any:
    """Compute softmax over the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gelu(x: Any) -> Any:
    """Compute GELU by its approximation with tanh."""
    return f(0.5) * x * (1 + np.tanh(f(np.sqrt(2 / np.pi)) * (x + f(0.044715) * x**3)))


def slopes(x: Any) -> Any:
    """Return a convolution of x with one slope per channel below 0."""
    y = ops.conv(x, np.ones((10, 3, 3, 3), np.float32))
    return ops.relu(y) + (y - ops.relu(y)) * np.linspace(0.1, 0.5, 10, dtype=np.float32).reshape(10, 1, 1)


MAP = (1, 96, 55, 55)
PER_CHANNEL = np.linspace(0.5, 2, 96, dtype=np.float32)[:, None, None]
POINTS = np.random.default_rng(0).integers(0, 65, (2, 500))
COLUMNS = (np.arange(43) * 0.6).astype(int)
MESH = np.meshgrid(np.arange(129) // 2, np.arange(129) // 2, indexing="ij")

_INTERPOLATED = "_interpolated_onnxruntime _interpolated_openvino"
CASES = (
    Case("_lrn", "ops.lrn of 5 channels", lambda x: ops.lrn(x, 5), [(1, 192, 56, 56)]),
    Case("_nearest _columns_first", "repeat 2 x 2", repeated, [(1, 128, 26, 26)]),
    Case("_nearest _columns_first", "repeat 2 x 2", repeated, [(1, 64, 104, 104)]),
    Case("_nearest _last_axis", "repeat columns", lambda x: np.repeat(x, 2, axis=3), [(1, 64, 104, 104)]),
    Case("_expanded _expanded_by_gathers", "copies by broadcasting", copied, [(1, 128, 26, 26)]),
    Case("_grid", "x[:, :, Y, X], a mesh", lambda x: x[:, :, MESH[0], MESH[1]], [(1, 64, 65, 65)]),
    Case("_last_axis", "x[..., columns]", lambda x: x[..., COLUMNS], [(1, 128, 26, 26)]),
    Case("_same_for_all_rows", "take_along_axis, four times", along, [(1, 32, 56, 56), (4, 3136)]),
    Case("_last_axis", "500 points", lambda x: x[:, :, POINTS[0], POINTS[1]], [(1, 64, 65, 65)]),
    Case(
        _INTERPOLATED,
        "bilinear 65 to 129, by axis",
        bilinear(129),
        [(1, 64, 65, 65)],
    ),
    Case(
        _INTERPOLATED,
        "bilinear 65 to 129, four taps",
        four_taps(129),
        [(1, 64, 65, 65)],
    ),
    Case(
        _INTERPOLATED,
        "bilinear 65 to 513, by axis",
        bilinear(513),
        [(1, 19, 65, 65)],
    ),
    Case(
        "_resized_onnxruntime _resized_openvino",
        "ops.resize 65 to 129",
        lambda x: ops.resize(x, (129, 129), coordinates="align_corners"),
        [(1, 64, 65, 65)],
    ),
    Case(
        _INTERPOLATED,
        "bilinear 20 to 40, by axis",
        bilinear(40),
        [(1, 64, 20, 20)],
    ),
    Case(
        "_space_to_depth",
        "6 axes to depth",
        lambda x: x.reshape(1, 64, 13, 2, 13, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 256, 13, 13),
        [(1, 64, 26, 26)],
    ),
    Case(
        "_depth_to_space",
        "6 axes to space",
        lambda x: x.reshape(1, 16, 2, 2, 26, 26).transpose(0, 1, 4, 2, 5, 3).reshape(1, 16, 52, 52),
        [(1, 64, 26, 26)],
    ),
    Case("_strided_parts _strided", "pixels of four corners", corners, [(1, 64, 26, 26)]),
    Case(
        "_shuffle",
        "shuffled channels",
        lambda x: x.reshape(1, 3, 80, 28, 28).swapaxes(1, 2).reshape(x.shape),
        [(1, 240, 28, 28)],
    ),
    Case("_strided", "x[:, :, ::2, ::2]", lambda x: x[:, :, ::2, ::2], [(1, 64, 56, 56)]),
    Case("_reversed", "x[..., ::-1]", lambda x: x[..., ::-1], [(1, 64, 26, 26)]),
    Case("_zeros_between", "zeros between pixels", spread, [(1, 64, 26, 26)]),
    Case(
        "_unpooled",
        "ops.max_unpool",
        lambda x, m: ops.max_unpool(x, (np.abs(m) * f(1000)).astype(np.int64), (128, 128)),
        [(1, 64, 64, 64), (1, 64, 64, 64)],
    ),
    Case("_relu", "maximum(x, 0)", lambda x: np.maximum(x, 0), [MAP]),
    Case("_leaky_relu", "maximum(x, x / 10)", lambda x: np.maximum(x, f(0.1) * x), [MAP]),
    Case("_selected_leaky_relu", "where(x > 0, x, x / 10)", lambda x: np.where(x > 0, x, f(0.1) * x), [MAP]),
    Case(
        "_slopes",
        "relu(x) + (x - relu(x)) slopes, batch open",
        slopes,
        [(1, 3, 200, 300)],
        open=True,
    ),
    Case("_slopes", "relu(x) + (x - relu(x)) slopes", slopes, [(1, 3, 172, 225)]),
    Case("_selected_slopes", "one slope per channel", lambda x: np.where(x > 0, x, PER_CHANNEL * x), [MAP]),
    Case("_masked", "x * (x > 0)", lambda x: x * (x > 0), [MAP]),
    Case("_relu_and_minimum", "max + c min", lambda x: np.maximum(x, 0) + f(0.1) * np.minimum(x, 0), [MAP]),
    Case("_two_relus", "max - c max", lambda x: np.maximum(x, 0) - f(0.1) * np.maximum(-x, 0), [MAP]),
    Case(
        "_upper_limit _upper_limit_of_relu _lower_limit",
        "min(max(x, 0), 6)",
        lambda x: np.minimum(np.maximum(x, 0), 6),
        [MAP],
    ),
    Case("_sigmoid", "1 / (1 + exp(-x))", lambda x: 1 / (1 + np.exp(-x)), [MAP]),
    Case("_quotient_by_exponential", "x / (1 + exp(-x))", lambda x: x / (1 + np.exp(-x)), [MAP]),
    Case("_quotient_of_exponentials", "exp / (1 + exp)", lambda x: np.exp(x) / (1 + np.exp(x)), [MAP]),
    Case("_sigmoid_of_tanh", "(tanh(x / 2) + 1) / 2", lambda x: f(0.5) * (np.tanh(f(0.5) * x) + 1), [MAP]),
    Case(
        "_tanh",
        "tanh by exp",
        lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)),
        [MAP],
    ),
    Case("_hard_sigmoid", "clip(x + 3, 0, 6) / 6", lambda x: np.clip(x + 3, 0, 6) / 6, [MAP]),
    Case("_hard_swish", "x clip(x + 3, 0, 6) / 6", lambda x: x * np.clip(x + 3, 0, 6) / 6, [MAP]),
    Case("_mish", "x tanh(log1p(exp(x)))", lambda x: x * np.tanh(np.log1p(np.exp(x))), [MAP]),
    Case("_mish", "x tanh(softplus(x))", lambda x: x * np.tanh(ops.softplus(x)), [MAP]),
    Case("_gelu", "GELU by tanh", gelu, [MAP]),
    Case("_gelu", "GELU by erf", lambda x: ops.gelu(x), [MAP]),
    Case("_affine_chain _quotient", "(x - c) / d", lambda x: (x - PER_CHANNEL) / PER_CHANNEL, [MAP]),
    Case(
        "_affine_chain _quotient",
        "five steps",
        lambda x: (x - PER_CHANNEL) / PER_CHANNEL * f(2) * PER_CHANNEL + f(1),
        [MAP],
    ),
    Case("_quotient", "x / 7", lambda x: x / 7, [MAP]),
    Case("_quarters", "x (1 + x x) ** -.75", lambda x: x * (1 + x * x) ** f(-0.75), [MAP]),
    Case("_sum", "sum over axis 1", lambda x: x.sum(axis=1), [(1, 512, 38, 38)]),
    Case("_sum", "sum over axis 1", lambda x: x.sum(axis=1), [(1, 256, 13, 13)]),
    Case("_softmax", "softmax, last axis", softmax, [(1, 8, 128, 128)]),
    Case("_softmax_of_pairs", "softmax of pairs", lambda x: ops.softmax(x, axis=-1), [(1, 4320, 2)]),
    Case("_mean_of_map", "mean over height and width", lambda x: x.mean(axis=(2, 3)), [MAP]),
    Case("_nms", "NMS of boxes, 300 at most", suppressed, [(6000, 5)]),
    Case("_no_unused_steps", "NMS with flags, 200 boxes", flags, [(200, 5)], engines=("cpp",)),
    Case("_norm", "x / length", lambda x: x / np.linalg.norm(x, axis=1, keepdims=True), [MAP]),
    Case(
        "_below_binary _reduced_transpose",
        "einsum nchw,nchw->nhw",
        lambda x: np.einsum("nchw,nchw->nhw", x, x),
        [(1, 64, 26, 26)],
    ),
)


PAGE = Path(__file__).parent.parent / "docs" / "rewrites.md"
_INTRODUCTION = """# Rewrite rules

Before an engine, a writer or a generator gets a graph, rewrite rules replace operators by equivalent
ones that it computes faster, or that it has. The tables list each rule with the targets that it is
used for and what it saved when it was measured. Layers record an operator whole, and what a user
spells out becomes whole again; the rules under "Operators that a target computes slowly" decide for
each target which of them stay whole. The target `onnx` is an ONNX file, `loops` generated C++ and
OpenCL. `python -m benchmarks.rules` measures all rules again, each against the graph
without it. The engine `numpy`, `verify` and `net.compile(exact=True)` use no rule that may change
the last bits of a result.

The column "bits" is "same" if a rule keeps every bit of a result, and "last" if it may change the last
bits. "59 -> 43" are the times without and with the rule, for one sample of the shape that precedes them.

The rules are functions in `src/anylayer/optimize/rewrites/`. This page is generated from their
docstrings by `make docs`.
"""


def page() -> str:
    """Return the text of docs/rewrites.md."""
    load_rules("optimize")
    lines = [_INTRODUCTION]
    theme = ""
    rewrites: dict[str, list[Rule]] = {}
    for r in RULES:
        if r.apply.__module__.startswith("anylayer.optimize.rewrites"):
            rewrites.setdefault(f"{r.apply.__module__}.{r.apply.__name__}", []).append(r)
    for same in rewrites.values():
        r = same[0]
        module = importlib.import_module(r.apply.__module__)
        if module.__name__ != theme:
            theme = module.__name__
            lines += [
                "",
                f"## {_sentence(module)}",
                "",
                "| rule | operator | targets | bits | measured |",
                "|---|---|---|---|---|",
            ]
        operators = ", ".join(dict.fromkeys(op for r in same for op in r.ops))
        targets = (
            "all" if any(not r.targets for r in same) else ", ".join(sorted({t for r in same for t in r.targets}))
        )
        measured = "; ".join(dict.fromkeys(r.figure for r in same if r.figure))
        pattern, figure = (text.replace("|", "\\|") for text in (_sentence(r.apply), measured))
        bits = "last" if any(r.kind == "faster" for r in same) else "same"
        lines.append(f"| {pattern} | {operators} | {targets} | {bits} | {figure} |")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _sentence(thing: Any) -> str:
    """Return the first paragraph of a docstring in one line, without its full stop."""
    return " ".join((thing.__doc__ or "").strip().split("\n\n")[0].split()).rstrip(".")


def main() -> None:
    """Measure the cases, and print one line per case and engine."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="rules whose names contain NAME")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds per case and engine [1]")
    parser.add_argument("--threads", type=int, default=2, help="threads of each engine [2]")
    parser.add_argument("--docs", action="store_true", help="write docs/rewrites.md instead of measuring")
    given = parser.parse_args()
    if given.docs:
        PAGE.write_text(page(), "utf-8")
        return
    print(f"{'rule':28}{'expression':32}{'shape':18}{'engine':13}{'before us':>10}{'after us':>10}{'ratio':>7}")
    simplifier.simplify(Graph())  # registers the rules
    for case in CASES:
        if given.names and not any(name in case.rules for name in given.names):
            continue
        for engine in case.engines:
            found = measure(case, engine, given.seconds, given.threads)
            if found is not None:
                shape = "x".join(map(str, case.shapes[0]))
                before, after = (s * 1e6 for s in found)
                print(
                    f"{case.rules.split()[0]:28}{case.text:32}{shape:18}{engine:13}{before:10.1f}{after:10.1f}"
                    f"{before / after:7.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
