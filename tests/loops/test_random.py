"""Random compositions of the operators that loops claim compute what NumPy does. The examples are fixed,
except with --hypothesis-profile=fresh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import anylayer.ops as ops
from anylayer.loops import Opened, lower, to_cpp
from anylayer.network import Array
from anylayer.optimize.simplify import simplify
from tests.loops.harness import build, call, needs_compiler, traced

pytestmark = needs_compiler

Step = tuple[str, Callable[[Any], Any]]
_PROGRAMS = 80


def _unary(draw: Any, x: Array) -> Step:
    name = draw(
        st.sampled_from(["abs", "negative", "tanh", "floor", "ceil", "exp", "sign", "sin", "rint", "sqrt"])
    )
    function = getattr(np, name)
    if name in ("exp", "sqrt"):
        return name, lambda v: function(np.minimum(np.abs(v), np.float32(3)))
    return name, lambda v: function(v)


def _binary(draw: Any, x: Array) -> Step:
    name = draw(st.sampled_from(["add", "subtract", "multiply", "maximum", "minimum", "where"]))
    shape = [d if draw(st.booleans()) else 1 for d in x.shape]
    other = np.random.default_rng(draw(st.integers(0, 99))).standard_normal(shape).astype(np.float32)
    if name == "where":
        return name, lambda v: np.where(v > other, v, other * np.float32(2))
    return name, lambda v: getattr(np, name)(v, other)


def _with_itself(draw: Any, x: Array) -> Step:
    axis = draw(st.integers(0, x.ndim - 1))
    return f"v * flip(v, {axis})", lambda v: v * np.flip(v, axis) + v


def _reduce(draw: Any, x: Array) -> Step:
    name = draw(st.sampled_from(["sum", "mean", "max", "min"]))
    axes = tuple(sorted(draw(st.sets(st.integers(0, x.ndim - 1), min_size=1))))
    kept = draw(st.booleans()) or x.ndim - len(axes) < 1
    return f"{name}{axes}", lambda v: getattr(np, name)(v, axis=axes, keepdims=kept)


def _reshape(draw: Any, x: Array) -> Step:
    sizes = list(x.shape)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(sizes) - 1))
        factors = [d for d in range(1, sizes[at] + 1) if sizes[at] % d == 0]
        if draw(st.booleans()) and len(sizes) < 6:
            d = draw(st.sampled_from(factors))
            sizes[at : at + 1] = [d, sizes[at] // d]
        elif at + 1 < len(sizes):
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
    return f"reshape{sizes}", lambda v: v.reshape(sizes)


def _transpose(draw: Any, x: Array) -> Step:
    order = draw(st.permutations(range(x.ndim)))
    return f"transpose{order}", lambda v: v.transpose(order)


def _slice(draw: Any, x: Array) -> Step:
    cuts = []
    for d in x.shape:
        start = draw(st.integers(0, d - 1))
        stop = draw(st.integers(start + 1, d))
        cuts.append(
            draw(st.sampled_from([slice(start, stop), slice(None, None, -1), slice(start, None, 2), slice(None)]))
        )
    return f"{cuts}", lambda v: v[tuple(cuts)]


def _take(draw: Any, x: Array) -> Step:
    axis = draw(st.integers(0, x.ndim - 1))
    at = np.array(draw(st.lists(st.integers(-x.shape[axis], x.shape[axis] - 1), min_size=1, max_size=5)))
    return f"take{at.tolist()}", lambda v: np.take(v, at, axis)


def _take_computed(draw: Any, x: Array) -> Step:
    axis = draw(st.integers(0, x.ndim - 1))
    size = x.shape[axis]

    def function(v: Any) -> Any:
        at = np.clip(np.floor(np.abs(v) * np.float32(2)), 0, size - 1).astype(np.int64)
        return np.take_along_axis(v, at, axis)

    return f"take_along_axis {axis}", function


def _concat(draw: Any, x: Array) -> Step:
    axis = draw(st.integers(0, x.ndim - 1))
    return f"concat {axis}", lambda v: np.concatenate([v, np.exp(-np.abs(v)), v[..., :1] * 0 + v], axis)


def _pad(draw: Any, x: Array) -> Step:
    mode = draw(st.sampled_from(["constant", "edge", "reflect", "wrap"]))
    most = 2 if mode in ("constant", "edge") else 0
    widths = [
        (draw(st.integers(0, most or min(d - 1, 2))), draw(st.integers(0, most or min(d - 1, 2)))) for d in x.shape
    ]
    return f"pad {mode} {widths}", lambda v: np.pad(v, widths, mode)


def _repeat(draw: Any, x: Array) -> Step:
    axis, times = draw(st.integers(0, x.ndim - 1)), draw(st.integers(1, 3))
    if draw(st.booleans()):
        return f"repeat {axis}", lambda v: np.repeat(v, times, axis)
    return f"tile {times}", lambda v: np.tile(v, times)


def _matmul(draw: Any, x: Array) -> Step:
    matrix = (
        np.random.default_rng(draw(st.integers(0, 99)))
        .standard_normal((x.shape[-1], draw(st.integers(1, 4))))
        .astype(np.float32)
    )
    if x.ndim > 1 and draw(st.booleans()):
        return "v @ v.T", lambda v: v @ v.swapaxes(-1, -2)
    return "matmul", lambda v: v @ matrix


def _normalize(draw: Any, x: Array) -> Step:
    axis = draw(st.integers(0, x.ndim - 1))
    if draw(st.booleans()):
        return f"softmax {axis}", lambda v: ops.softmax(v, axis=axis)
    return f"norm {axis}", lambda v: v / np.sqrt((v * v).sum(axis, keepdims=True) + np.float32(1e-3))


def _sort(draw: Any, x: Array) -> Step:
    axis = draw(st.integers(0, x.ndim - 1))
    largest, k = draw(st.booleans()), draw(st.integers(1, x.shape[axis]))
    kind = draw(st.sampled_from(["values", "indices", "argmax", "cumsum"]))
    if kind == "argmax":
        return f"argmax {axis}", lambda v: np.argmax(v, axis, keepdims=True).astype(np.float32)
    if kind == "cumsum":
        return f"cumsum {axis}", lambda v: np.cumsum(v, axis)
    at = kind == "indices"
    return f"top_k {kind} {axis}", lambda v: ops.top_k(v, k, axis=axis, largest=largest)[at].astype(np.float32)


def _integers(draw: Any, x: Array) -> Step:
    number = draw(st.sampled_from([-3, 2, 5]))
    how = draw(st.sampled_from(["//", "%", "+"]))

    def function(v: Any) -> Any:
        whole = np.rint(v * np.float32(4)).astype(np.int64)
        return {"//": lambda: whole // number, "%": lambda: whole % number, "+": lambda: whole + number}[
            how
        ]().astype(np.float32)

    return f"integers {how} {number}", function


def _resize(draw: Any, x: Array) -> Step:
    mode = draw(st.sampled_from(["linear", "cubic", "nearest"]))
    rule = draw(st.sampled_from(["half_pixel", "align_corners", "asymmetric"]))
    size, axis = draw(st.integers(1, 12)), draw(st.integers(0, x.ndim - 1))
    how = {"mode": mode, "coordinates": rule}
    return f"resize {axis} to {size} {mode} {rule}", lambda v: ops.resize(v, [size], axes=[axis], **how)


def _activation(draw: Any, x: Array) -> Step:
    functions: dict[str, Callable[[Any], Any]] = {
        "log": lambda v: np.log(np.abs(v) + np.float32(0.1)),
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        "elu": lambda v: np.where(v < 0, np.exp(np.minimum(v, 0)) - 1, v),
        "leaky": lambda v: ops.leaky_relu(v, 0.1),
        "power": lambda v: np.abs(v) ** np.float32(1.5),
        "clip": lambda v: np.clip(v, -1, 2) + np.cos(v),
    }
    name = draw(st.sampled_from(sorted(functions)))
    return name, functions[name]


def _blocks(draw: Any, x: Array) -> Step:
    """Repeat the elements of an axis, move the repetitions to the front, and merge both: divisions of indices."""
    axis, times = draw(st.integers(0, x.ndim - 1)), draw(st.integers(2, 3))
    shape = [times * d if a == axis else d for a, d in enumerate(x.shape)]

    def function(v: Any) -> Any:
        wide = np.repeat(v, times, axis).reshape(*v.shape[:axis], v.shape[axis], times, *v.shape[axis + 1 :])
        return np.moveaxis(wide, axis + 1, 0).reshape(shape)

    return f"blocks {axis} {times}", function


def _map(draw: Any, x: Array) -> Step:
    """Return an operator of maps (N, C, H, W). Arrays of other ranks are reshaped first."""
    shape = (1,) * (4 - x.ndim) + x.shape if x.ndim <= 4 else (*x.shape[:3], x.size // int(np.prod(x.shape[:3])))
    n, c, h, w = shape
    random = np.random.default_rng(draw(st.integers(0, 99)))
    size, edge = (draw(st.integers(1, 4)), draw(st.integers(1, 4))), draw(st.integers(0, 1))
    window = (draw(st.integers(1, min(h, 3))), draw(st.integers(1, min(w, 3))))
    inside = [min(edge, k - 1) for k in window]
    points = random.uniform(-1.2, 1.2, (n, *size, 2)).astype(np.float32)
    corners = np.sort(random.uniform(-1, 2 * max(h, w), (3, 2, 2)), axis=1).reshape(3, 4).astype(np.float32)
    weights = random.standard_normal((2, c, *window)).astype(np.float32)
    mode = draw(st.sampled_from(["linear", "cubic"]))
    padding = draw(st.sampled_from(["zeros", "border", "reflection"]))
    functions: dict[str, Callable[[Any], Any]] = {
        "space_to_depth": lambda v: ops.space_to_depth(np.repeat(np.repeat(v, 2, 2), 2, 3) * v[:, :, :1, :1], 2),
        "depth_to_space": lambda v: ops.depth_to_space(np.tile(v, (1, 4, 1, 1)), 2, mode="CRD" if edge else "DCR"),
        "grid_sample": lambda v: ops.grid_sample(
            v, points + np.tanh(v[:, :1, :1, :1]), mode=mode, padding=padding, align_corners=bool(edge)
        ),
        "roi_align": lambda v: ops.roi_align(
            v, corners, np.zeros(3, np.int64), size=size, sampling_ratio=2, half_pixel=bool(edge)
        ),
        "max_pool": lambda v: ops.max_pool(v, window, strides=size[0], pads=inside),
        "average_pool": lambda v: ops.average_pool(
            v, window, strides=size, pads=inside, count_include_pad=bool(edge)
        ),
        "conv": lambda v: ops.conv(v, weights, strides=size, pads=edge),
        "conv_transpose": lambda v: ops.conv_transpose(v, weights.swapaxes(0, 1), strides=size),
    }
    name = draw(st.sampled_from(sorted(functions)))
    return f"{name} {shape} {size} {window} {mode} {padding} {edge}", lambda v: functions[name](v.reshape(shape))


def _nd(draw: Any, x: Array) -> Step:
    """Select or replace elements by constant coordinates."""
    random, depth = np.random.default_rng(draw(st.integers(0, 99))), draw(st.integers(1, x.ndim))
    places = np.stack([random.integers(0, d, 4) for d in x.shape[:depth]], axis=-1)
    axis = draw(st.integers(0, x.ndim - 1))
    rows = np.argsort(random.random(x.shape), axis)
    if draw(st.booleans()):
        return f"gather_nd {depth}", lambda v: ops.gather_nd(v, places)
    return f"scatter_elements {axis}", lambda v: ops.scatter_elements(v, rows, np.exp(-np.abs(v)), axis=axis)


STEPS = [
    *(_unary, _binary, _with_itself, _reduce, _reshape, _transpose, _slice, _take, _take_computed, _concat, _pad),
    *(_repeat, _matmul, _normalize, _sort, _integers, _resize, _activation, _blocks),
    *(_map, _nd),
]


@st.composite
def programs(draw: Any) -> tuple[list[str], Callable[[Any], list[Any]], Array]:
    """Return a function of one array as a list of steps, and its input."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    x = np.random.default_rng(draw(st.integers(0, 99))).standard_normal(shape).astype(np.float32)
    steps: list[Step] = []
    value = x
    for _ in range(draw(st.integers(1, 6))):
        step = draw(st.sampled_from(STEPS))(draw, value)
        with np.errstate(all="ignore"):
            after = np.asarray(step[1](value))
        if not 0 < after.size <= 20_000 or after.ndim < 1 or after.ndim > 6:
            break
        value = after
        steps.append(step)
    half = len(steps) // 2

    def function(v: Any) -> list[Any]:
        outputs = []
        for i, (_, step) in enumerate(steps):
            v = step(v)
            if i == half and len(steps) > 2:
                outputs.append(v)
        return [*outputs, v]

    return [name for name, _ in steps], function, x


def collected(count: int) -> list[tuple[list[str], Callable[[Any], list[Any]], Array]]:
    """Return the first examples that hypothesis makes: the same in every run, except with the profile "fresh"."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def collect(program: Any) -> None:
        if program[0]:
            found.append(program)

    collect()
    return found


def differences(examples: Sequence[Any], folder: Path) -> list[str]:
    """Return what the loops of programs compute differently from NumPy."""
    codes = []
    for i, (_, function, x) in enumerate(examples):
        graph = traced(function, x)
        codes.append(to_cpp(lower(Opened(simplify(graph, exact=True))), f"program_{i}"))
    library = build(codes, folder)
    wrong = []
    for code, (names, function, x) in zip(codes, examples):
        got = call(library, code, [x], {})
        with np.errstate(all="ignore"):
            want = [np.asarray(y) for y in function(x)]
        if got is None or [g.shape for g in got] != [w.shape for w in want]:
            wrong.append(f"{names} of {x.shape}: {got and [g.shape for g in got]}")
            continue
        for g, w in zip(got, want):
            scale = max(float(np.abs(w[np.isfinite(w)]).max(initial=0)), 1e-6)
            if g.dtype != w.dtype or not np.allclose(g, w, rtol=0, atol=1e-5 * scale, equal_nan=True):
                how = f"largest difference {np.abs(g - w).max():.3g}, largest value {scale:.3g}"
                wrong.append(f"{names} of {x.shape}: {how}\n{code.text}")
    return wrong


@pytest.mark.hypothesis
def test_random_programs_equal_numpy(tmp_path: Path) -> None:
    examples = collected(_PROGRAMS)
    assert len(examples) > _PROGRAMS // 2
    assert not differences(examples, tmp_path)
