"""Statements of random programs. Each function takes the random generator and the variables, and returns source
code.

NumPy may refuse a statement; then the program does not contain it (see program.py). A function that finds no
suitable variable returns None.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

Variables = dict[str, Any]
Statement = Callable[[Random, Variables], "str | None"]


def _words(text: str) -> list[str]:
    return text.split()


UNARY = _words(
    "np.exp np.log np.sqrt np.abs np.negative np.sign np.floor np.ceil np.rint np.trunc np.square "
    "np.reciprocal np.sin np.cos np.tan np.arcsin np.arccos np.arctan np.sinh np.cosh np.tanh "
    "np.arcsinh np.arccosh np.arctanh np.exp2 np.expm1 np.log2 np.log10 np.log1p np.cbrt np.isnan "
    "np.isinf np.isfinite np.signbit np.logical_not np.invert np.deg2rad np.rad2deg np.fix "
    "np.nan_to_num np.sinc np.positive np.conjugate np.angle np.real np.copy np.round np.zeros_like "
    "np.ones_like np.isposinf np.isneginf np.ravel np.transpose np.squeeze np.atleast_1d "
    "np.atleast_2d np.atleast_3d np.flip np.tril np.triu np.diff np.flipud np.fliplr np.trace "
    "np.diagflat np.ediff1d np.shape np.size np.ndim np.argsort np.sort"
)
OPERATORS = _words("+ - * / // % ** & | ^ << >> < <= > >= == != + - * / * +")
BINARY = _words(
    "np.maximum np.minimum np.fmax np.fmin np.arctan2 np.hypot np.copysign np.logaddexp "
    "np.logaddexp2 np.power np.fmod np.heaviside np.floor_divide np.remainder np.true_divide "
    "np.logical_and np.logical_or np.logical_xor np.outer np.inner np.kron np.dot np.matmul "
    "np.isclose np.float_power np.add np.subtract np.multiply np.array_equal np.isin np.vdot "
    "np.append np.broadcast_arrays np.ldexp np.divmod np.allclose np.left_shift np.right_shift"
)
REDUCTIONS = _words(
    "sum mean max min prod any all std var argmax argmin ptp median cumsum cumprod average "
    "count_nonzero nansum nanmax nanmin nanmean nanprod sum mean max min"
)
DTYPES = _words(
    "np.float32 np.float64 np.float16 np.int32 np.int64 np.uint8 np.int8 np.int16 np.uint16 bool float int"
)
CONSTANTS = _words(
    "0 1 2 3 -1 -2 0.5 -0.5 1.5 0.1 10 100 np.float32(0.3) np.float32(-2) np.float64(0.7) "
    "np.int64(3) np.int32(-2) np.uint8(200) True 1e-3 255 7"
)


def name(r: Random, v: Variables, fits: Callable[[Any], bool] = lambda x: True) -> str | None:
    """Return a variable, preferably a late one."""
    names = [n for n, x in v.items() if fits(x)]
    return names[-1 - min(int(r.expovariate(0.5)), len(names) - 1)] if names else None


def axis(r: Random, x: Any) -> int:
    """Return an axis, counted from either end."""
    return r.randrange(-x.ndim, x.ndim) if x.ndim else 0


def constant(r: Random, shape: tuple[int, ...]) -> str:
    """Return an array of constants that broadcasts to `shape`."""
    sizes = [d if r.random() < 0.7 else 1 for d in shape][r.randrange(len(shape) + 1) :]
    count = int(np.prod(sizes, dtype=int))
    kind = r.choice(["np.float32", "np.float32", "np.int64", "np.float64", "np.uint8", "np.int32"])
    step = r.choice(["0.5", "1", "1", "3"])
    return (
        f"(np.arange({count}).reshape({tuple(sizes)}) * {step} - {r.choice([0, 0, 1, count // 2])}).astype({kind})"
    )


def operand(r: Random, v: Variables, like: Any) -> str:
    """Return a variable, a number or an array of constants."""
    kind = r.random()
    if kind < 0.45:
        return name(r, v) or "1"
    return r.choice(CONSTANTS) if kind < 0.75 else constant(r, like.shape)


def unary(r: Random, v: Variables) -> str | None:
    x = name(r, v)
    function = r.choice(UNARY)
    stable = ", kind='stable'" if function == "np.argsort" else ""  # the default orders equal values as it likes
    return f"{function}({x}{stable})"


def infix(r: Random, v: Variables) -> str | None:
    x = name(r, v)
    other = operand(r, v, v[x or ""])
    a, b = (x, other) if r.random() < 0.75 else (other, x)
    return f"{a} {r.choice(OPERATORS)} {b}"


def binary(r: Random, v: Variables) -> str | None:
    x = name(r, v)
    other = operand(r, v, v[x or ""])
    a, b = (x, other) if r.random() < 0.75 else (other, x)
    return f"{r.choice(BINARY)}({a}, {b})"


def reduction(r: Random, v: Variables) -> str | None:
    x = name(r, v) or ""
    function = r.choice(REDUCTIONS)
    arguments = []
    if v[x].ndim and r.random() < 0.75:
        one = function in ("argmax", "argmin", "cumsum", "cumprod") or r.random() < 0.7
        axes = axis(r, v[x]) if one else tuple(sorted({axis(r, v[x]) % v[x].ndim, axis(r, v[x]) % v[x].ndim}))
        arguments.append(f"axis={axes}")
    if r.random() < 0.3 and function not in ("cumsum", "cumprod"):
        arguments.append("keepdims=True")
    if r.random() < 0.1 and function in ("sum", "mean", "prod", "cumsum"):
        arguments.append(f"dtype={r.choice(DTYPES)}")
    if function in ("std", "var") and r.random() < 0.3:
        arguments.append("ddof=1")
    if r.random() < 0.4 and hasattr(np.ndarray, function):
        return f"{x}.{function}({', '.join(arguments)})"
    return f"np.{function}({', '.join([x, *arguments])})"


def order(r: Random, v: Variables) -> str | None:
    """Return a sort or an order statistic."""
    x = name(r, v, lambda a: a.ndim > 0)
    if x is None:
        return None
    a = axis(r, v[x])
    return r.choice(
        [
            f"np.sort({x}, axis={a})",
            f"np.argsort({x}, axis={a}, kind='stable')",
            f"-np.sort(-{x}, axis={a})",
            f"np.percentile({x}, {r.choice([0, 10, 50, 99.5, 100])}, axis={a})",
            f"np.quantile({x}, {r.choice([0.25, 0.5, 1])})",
            f"np.searchsorted([-1.0, 0.0, 0.5, 2.0], {x}, side={r.choice(['left', 'right'])!r})",
            f"np.digitize({x}, [-1, 0, 1])",
            f"np.interp({x}, [-1.0, 0.0, 2.0], [3.0, 1.0, 2.0])",
            f"np.take_along_axis({x}, np.argsort({x}, axis={a}, kind='stable'), {a})",
        ]
    )


def _sizes(r: Random, count: int) -> list[int]:
    """Return sizes whose product is `count`."""
    sizes = []
    while count > 1 and len(sizes) < 4:
        d = r.choice([n for n in range(1, count + 1) if count % n == 0])
        sizes.append(d)
        count //= d
    return [*sizes, count] if count > 1 or not sizes else sizes


def shape(r: Random, v: Variables) -> str | None:
    x = name(r, v) or ""
    y = v[x]
    new = _sizes(r, y.size)
    if r.random() < 0.4 and new:
        new[r.randrange(len(new))] = -1
    if not y.ndim:
        return r.choice([f"{x}.reshape(1, 1)", f"np.expand_dims({x}, 0)", f"np.full((2, 3), {x})", f"{x}[None]"])
    a, b = axis(r, y), axis(r, y)
    permuted = list(range(y.ndim))
    r.shuffle(permuted)
    widths = [(r.randrange(3), r.randrange(3)) for _ in range(y.ndim)]
    return r.choice(
        [
            f"{x}.reshape({', '.join(map(str, new))})",
            f"np.reshape({x}, {tuple(new)})",
            f"{x}.transpose({', '.join(map(str, permuted))})",
            f"{x}.T",
            f"{x}.swapaxes({a}, {b})",
            f"np.moveaxis({x}, {a}, {b})",
            f"np.expand_dims({x}, {a})",
            f"{x}[..., None]",
            f"{x}.ravel()",
            f"{x}.flatten()",
            f"np.flip({x}, {a})",
            f"np.roll({x}, {r.randrange(-3, 4)}, axis={a})",
            f"np.rot90({x})",
            f"np.repeat({x}, {r.randrange(1, 4)}, axis={a})",
            f"np.tile({x}, {tuple(r.randrange(1, 3) for _ in range(y.ndim))})",
            f"np.broadcast_to({x}, {(2, *y.shape)})",
            f"np.pad({x}, {widths}, mode={r.choice(['constant', 'edge', 'reflect', 'symmetric', 'wrap'])!r})",
            f"np.squeeze({x})",
            f"np.diagonal({x})",
            f"np.delete({x}, 0, axis={a})",
            f"np.insert({x}, 0, 1, axis={a})",
            f"np.split({x}, [1], axis={a})[-1]",
            f"np.array_split({x}, 2, axis={a})[0]",
            f"np.lib.stride_tricks.sliding_window_view({x}, 2, axis={a})",
            f"np.gradient({x}, axis={a})",
            f"np.diff({x}, axis={a})",
            f"np.cumsum({x}, axis={a})",
            f"np.trapezoid({x}, axis={a})",
            f"np.linalg.norm({x}, axis={a})",
            f"np.unravel_index({x}.argmax(), {y.shape})[0]",
        ]
    )


def index(r: Random, y: Any) -> str:
    """Return a subscript for an array."""
    parts = []
    for d in y.shape[: r.randrange(y.ndim + 1)]:
        start, step = r.randrange(-d, d), r.choice([None, None, 1, 2, -1])
        parts.append(
            r.choice(
                [
                    ":",
                    ":",
                    f"{start}",
                    f"{start}:",
                    f":{start}",
                    f"{min(start, 0)}::{step or 1}" if start < 0 else f"{start}::{step or 1}",
                    "::-1",
                    "None",
                    f"{[r.randrange(-d, d) for _ in range(r.randrange(1, 4))]}",
                    f"np.array({[r.randrange(d) for _ in range(2)]})",
                    f"np.array({[r.random() < 0.5 for _ in range(d)]})",
                ]
            )
        )
    if r.random() < 0.2:
        parts.insert(r.randrange(len(parts) + 1), "...")
    return ", ".join(parts) or "..."


def item(r: Random, v: Variables) -> str | None:
    x = name(r, v, lambda a: a.ndim > 0)
    if x is None:
        return None
    if r.random() < 0.2:  # a computed index
        i = name(r, v)
        d = v[x].shape[0]
        return r.choice(
            [
                f"{x}[np.abs({i}).astype(np.int64) % {d}]",
                f"np.take({x}, np.clip(np.nan_to_num({i}), 0, {d - 1}).astype(int), axis=0)",
                f"np.where({x} > 0, {x}, 0)",
                f"{x}[{x} > 0].sum()",
                f"{x}[{x}.argmax(0) * 0]",
            ]
        )
    return f"{x}[{index(r, v[x])}]"


def selection(r: Random, v: Variables) -> str | None:
    """Return elements that are selected by their values; their number depends on data."""
    x = name(r, v, lambda a: a.ndim > 0 and a.size > 0)
    if x is None:
        return None
    mask = f"{x} > {r.choice(['0', '0.5', '1', '100', '-100'])}"
    rows = f"({mask}).reshape({x}.shape[0], -1).any(1)"
    return r.choice(
        [
            f"{x}[{mask}]",
            f"{x}[{rows}]",
            f"{x}[{rows}] * 2 + 1",
            f"{x}[{rows}].sum(0)",
            f"{x}[{rows}][::-1]",
            f"{x}[{rows}][:2]",
            f"{x}[np.where({rows})[0]]",
            f"{x}[np.where({rows})[0][1:]]",
            f"np.nonzero({mask})[-1]",
            f"np.argwhere({mask})",
            f"np.flatnonzero({mask})",
            f"np.extract({mask}, {x})",
            f"np.compress({rows}, {x}, axis=0)",
            f"np.concatenate([{x}[{rows}], {x}])",
            f"np.sort({x}[{mask}])",
            f"np.argsort({x}[{mask}], kind='stable')",
            f"np.arange(len({x}[{rows}]))",
            f"np.float32(len(np.where({rows})[0]))",
            f"{x}[{rows}].reshape(len({x}[{rows}]), -1)",
            f"{x}[{rows}][:, None] - {x}[{rows}][None]",
        ]
    )


def join(r: Random, v: Variables) -> str | None:
    x = name(r, v) or ""
    y = v[x]
    same = name(r, v, lambda a: a.shape == y.shape) or x
    a = axis(r, y) if y.ndim else 0
    return r.choice(
        [
            f"np.concatenate([{x}, {same}], axis={a})",
            f"np.stack([{x}, {same}], axis={a})",
            f"np.vstack([{x}, {same}])",
            f"np.hstack([{x}, {same}])",
            f"np.dstack([{x}, {same}])",
            f"np.where({x} > {same}, {x}, {same} * 2)",
            f"np.where({x} != 0, {operand(r, v, y)}, {operand(r, v, y)})",
            f"np.select([{x} > 1, {same} < 0], [{x}, {same} * 3], 7)",
            f"np.clip({x}, {r.choice(['-1', '0', 'None', '-0.5'])}, {r.choice(['1', '6', '2.5'])})",
            f"np.choose(({x} > 0).astype(int), [{same}, {x} + 1])",
            f"np.array([{x}.sum(), {same}.max()])",
            f"np.einsum('...i,...i->...', {x}, {same})",
            f"np.tensordot({x}, {same}, axes={y.ndim})",
            f"np.average({x}, weights=np.abs({same}) + 1)",
            f"np.block([[{x}], [{same}]])",
            f"np.meshgrid({x}.ravel()[:3], {same}.ravel()[:2])[0]",
            f"np.polyval([1, -2, 0.5], {x})",
            f"np.matmul({x}, {same}.swapaxes(-1, -2))",
            f"{x} @ np.ones(({y.shape[-1] if y.ndim else 1}, 3), {x}.dtype)",
            f"np.cross({x}, {same})",
        ]
    )


def converted(r: Random, v: Variables) -> str | None:
    return f"{name(r, v)}.astype({r.choice(DTYPES)})"


def constants(r: Random, v: Variables) -> str | None:
    x = name(r, v) or ""
    return r.choice(
        [
            constant(r, v[x].shape or (2,)),
            f"np.zeros_like({x})",
            f"np.zeros({x}.shape, np.float32)",
            f"np.ones({x}.shape, {x}.dtype)",
            f"np.full({x}.shape, 2.5, np.float32)",
            f"np.empty_like({x}) * 0 + 1" if v[x].dtype.kind != "f" else f"np.full_like({x}, 3)",
            f"np.arange({x}.size, dtype=np.float32)",
            "np.linspace(0, 1, 5).astype(np.float32)",
            "np.eye(3, dtype=np.float32)",
            f"np.array({x}.shape)",
            f"np.float32({x}.size)",
        ]
    )


EXPRESSIONS: tuple[tuple[int, Statement], ...] = (
    (14, unary),
    (16, infix),
    (9, binary),
    (13, reduction),
    (5, order),
    (13, shape),
    (12, item),
    (9, join),
    (6, selection),
    (5, converted),
    (3, constants),
)


def expression(r: Random, v: Variables) -> str | None:
    """Return an expression."""
    weights, functions = zip(*EXPRESSIONS)
    return str(r.choices(functions, weights)[0](r, v))


def writing(r: Random, v: Variables) -> str | None:
    """Return a statement that writes into a variable, after making it a copy of its own."""
    x = name(r, v, lambda a: a.ndim > 0)
    if x is None:
        return None
    y = v[x]
    at, value = index(r, y), operand(r, v, y)
    count = y.shape[0]
    places = [r.randrange(count) for _ in range(2)] if count else []
    body = r.choice(
        [
            f"t[{at}] = {value}",
            f"t[{at}] += {value}",
            f"t[{at}] *= {r.choice(CONSTANTS)}",
            f"t[{at}] = t[{at}] * 2",
            f"t {r.choice(['+', '-', '*', '/', '//', '%', '&', '|'])}= {value}",
            f"t[t > {r.choice(['0', '1', '0.5'])}] = {r.choice(CONSTANTS)}",
            f"t[t < 0] *= {r.choice(['2', '0.5', '-1'])}",
            f"t[{x} > 0] += 1",
            f"np.add.at(t, {places}, {r.choice(CONSTANTS)})",
            f"np.maximum(t, {value}, out=t)",
            f"np.multiply(t, {r.choice(CONSTANTS)}, out=t)",
            "np.clip(t, -1, 1, out=t)",
            "t.sort()",
            f"t.fill({r.choice(CONSTANTS)})",
            f"np.copyto(t, {value})",
            f"np.put(t, {places}, {r.choice(CONSTANTS)})",
            f"np.putmask(t, t > 0, {r.choice(CONSTANTS)})",
            f"np.fill_diagonal(t, {r.choice(CONSTANTS)})",
            f"t.reshape(-1)[::2] = {r.choice(CONSTANTS)}",
            f"t.T[...] = {value}",
            f"t.flat[::3] = {r.choice(CONSTANTS)}",
            f"np.add(t, {r.choice(CONSTANTS)}, out=t, where=t > 0)",
            f"np.put_along_axis(t, t.argmax(0)[None], {r.choice(CONSTANTS)}, 0)",
        ]
    )
    start = r.choice([f"{x}.copy()", f"{x} * 1", f"np.array({x})", f"np.zeros_like({x})", f"np.zeros({x}.shape)"])
    return f"t = {start}\n{body}\nV = t"


def control(r: Random, v: Variables) -> str | None:
    """Return a loop, a branch on shapes, or a function."""
    x = name(r, v, lambda a: a.ndim > 0 and a.shape[0] > 0)
    if x is None:
        return None
    y = v[x]
    inner = expression(r, {"u": y[0] if y.ndim > 1 else y})
    return r.choice(
        [
            f"V = sum(row * {r.choice(CONSTANTS)} for row in {x})",
            f"V = np.stack([row - {r.choice(CONSTANTS)} for row in {x}])",
            f"V = {x}\nfor i in range({r.randrange(1, 4)}):\n    V = V * {r.choice(CONSTANTS)} + i",
            f"V = {x} if {x}.shape[0] > 2 else {x} * 2",
            f"u = {x}[0] if {x}.ndim > 1 else {x}\nV = {inner}",
            f"V = (lambda u: {inner})({x}[0] if {x}.ndim > 1 else {x})",
            f"V = np.zeros({x}.shape, {x}.dtype)\nfor i in range({x}.shape[0]):\n    V[i] = {x}[-1 - i]",
            f"V = np.zeros(({x}.shape[0],), np.float32)\nfor i in range({x}.shape[0]):\n    V[i] = {x}[i].sum()",
            f"V = self.table[: {x}.shape[-1]] * {x}",
            f"V = self.halved({x})",
            f"with np.errstate(all='ignore'):\n    V = {x} / {operand(r, v, y)}",
            f"V = np.apply_along_axis(np.sum, 0, {x})",
            f"V = {x} if {x}.sum() > 0 else -{x}",
            f"V = np.max([{x}.max(), 1])",
        ]
    )
