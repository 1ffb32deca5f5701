"""A random program: the source code of a layer's class, its inputs, and values for them. All of it follows from a
seed.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from . import flow, flow_statements, grammar

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e-30)
_MOST = 2000
"""The number of values of the largest variable."""
_FLOW = 0.7
"""The share of the programs with loops and branches on data."""
_HEAD = """import numpy as np


class Program:
    def __init__(self, params, blobs):
        self.table = np.arange(1, 9, dtype=np.float32) / 4

    def halved(self, x):
        return x * np.float32(0.5)
{methods}
    def forward(self, inputs):
        {names} = inputs
"""
_METHODS = """
    def overlap(self, box, others):
        low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:4], others[:, 2:4])
        common = np.prod(np.maximum(high - low, 0), axis=1)
        area = (box[2] - box[0]) * (box[3] - box[1])
        areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
        return common / np.maximum(area + areas - common, 1)

    def clipped(self, x, top):
        if x.max() > top:
            x = np.minimum(x, top)
        return x

    def first_above(self, x, least):
        for e in x:
            if e > least:
                return e
        return x[0] - 1

    def above(self, x, least):
        chosen = x[x > least]
        if len(chosen) == 0:
            return x[:1]
        return chosen
"""


@dataclass(slots=True)
class Program:
    """A program. `feeds` are dicts of arrays: noise, small integers, zeros. If it is `special`, one more feed has
    NaN and infinity among its floats.

    A program with loops and branches on data is `exact`: it rounds nothing, so that no branch may differ. Its
    inputs have sizes with names, `shapes`, and `others` are feeds of other sizes than those of the trace.
    """

    seed: int
    text: str
    feeds: list[dict[str, Any]] = field(default_factory=list)
    outputs: int = 1
    special: bool = False
    exact: bool = False
    shapes: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    others: list[dict[str, Any]] = field(default_factory=list)


class _Namespace:
    """The object that replaces `self` while the program is made."""

    table = np.arange(1, 9, dtype=np.float32) / 4

    @staticmethod
    def halved(x: Any) -> Any:
        return x * np.float32(0.5)


def make(seed: int) -> Program:
    """Return the program of a seed."""
    r = Random(seed)
    if r.random() < _FLOW:
        return _with_flow(seed, r)
    inputs = _inputs(r)
    v: dict[str, Any] = dict(inputs)
    lines: list[str] = []
    for _ in range(r.randrange(2, 9)):
        for _ in range(20):
            if _added(r, v, lines):
                break
    made = [n for n in v if n not in inputs] or list(v)
    outputs = made[-r.randrange(1, 3) :]
    body = "\n".join([*lines, f"return [{', '.join(outputs)}]"])
    text = _HEAD.format(names=", ".join(inputs) + ",", methods="") + textwrap.indent(body, " " * 8) + "\n"
    special = r.random() < 0.2
    generator = np.random.default_rng(seed)
    feeds = [{n: _feed(generator, x, kind) for n, x in inputs.items()} for kind in ("noise", "whole", "zeros")]
    if special:
        feeds.append({n: _feed(generator, x, "special") for n, x in inputs.items()})
    return Program(seed, text, feeds, len(outputs), special)


def _with_flow(seed: int, r: Random) -> Program:
    """Return a program with loops and branches on data."""
    like, shapes = flow.inputs(r)
    generator = np.random.default_rng(seed)
    feeds = [{n: flow.feed(generator, x, kind) for n, x in like.items()} for kind in flow.KINDS]
    others = [
        {
            n: flow.feed(generator, np.zeros([sizes.get(d, d) for d in shapes[n]], x.dtype), kind)
            for n, x in like.items()
        }
        for sizes, kind in _other_sizes(r)
    ]
    scope = flow.Scope(r, dict(feeds[0]))
    head = _HEAD.format(names=", ".join(like) + ",", methods=_METHODS)
    lines: list[str] = []
    for number in range(r.choice([1, 1, 1, 2, 2, 3])):
        for _ in range(20):
            found = flow_statements.statement(scope)
            new = None if found is None else [*lines, re.sub(r"(?<=[a-z])V\b", str(number), found)]
            values = None if new is None else _locals_of(head + _body([*new, "return locals()"]), feeds)
            if new is not None and values is not None:
                lines, scope.values = new, values
                break
    made = [n for n, x in scope.values.items() if n not in like and _is_output(x)] or list(like)
    made = [n for n in made if n[-1].isdigit()] or made
    outputs = r.sample(made, min(len(made), r.choice([1, 2, 2, 3])))
    early = ", ".join(_nothing_like(scope.values[n]) for n in outputs)
    returned = ", ".join(_as_array(n, scope.values[n]) for n in outputs)
    text = head + _body([*lines, f"return [{returned}]"]).replace("EARLY", f"[{early}]")
    return Program(seed, text, feeds, len(outputs), exact=True, shapes=shapes, others=others)


def _other_sizes(r: Random) -> list[tuple[dict[str, int], str]]:
    return [({"n": n, "t": r.choice([1, 2, 3, 6])}, r.choice(flow.KINDS)) for n in (1, 2, 3, 6, 9, 13)]


def _body(lines: list[str]) -> str:
    return textwrap.indent("\n".join(lines), " " * 8) + "\n"


def _locals_of(text: str, feeds: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the local variables for the first feed that does not return early, or None if NumPy refuses many."""
    scope: dict[str, Any] = {}
    found, refused = None, 0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(text.replace("EARLY", "None"), scope)
        for feed in feeds:
            try:
                values = scope["Program"]({}, ()).forward([x.copy() for x in feed.values()])
            except Exception:
                refused += 1
                continue
            found = values if found is None and values is not None else found
    if found is None or refused > len(feeds) // 3:
        return None
    found = {n: x for n, x in found.items() if n not in ("self", "inputs")}
    return found if all(np.size(x) <= _MOST for x in found.values() if isinstance(x, np.ndarray)) else None


def _is_output(x: Any) -> bool:
    return isinstance(x, (bool, int, float)) or (
        isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biuf"
    )


def _as_array(name: str, x: Any) -> str:
    """Return an expression of an output: a number of Python becomes an array."""
    return name if isinstance(x, np.ndarray) else f"np.array({name}, np.float32)"


def _nothing_like(x: Any) -> str:
    """Return an expression of zeros of the dtype and the last axes of a value."""
    if isinstance(x, np.ndarray) and x.ndim:
        return (
            f"np.zeros({(0, *x.shape[1:])}, np.{x.dtype})"
            if x.dtype != bool
            else f"np.zeros({(0, *x.shape[1:])}, bool)"
        )
    return f"np.{x.dtype}(0)" if isinstance(x, (np.ndarray, np.generic)) else "np.float32(0)"


def _inputs(r: Random) -> dict[str, Any]:
    found = {}
    base = [r.choice([1, 2, 3, 4, 5]) for _ in range(r.choice([0, 1, 2, 2, 3, 3, 4]))]
    for n in "xyz"[: r.choice([1, 1, 2, 3])]:
        shape = base if r.random() < 0.6 else [r.choice([1, 2, 3, 4]) for _ in range(r.randrange(4))]
        dtype = np.dtype(r.choice(["f4"] * 8 + ["f8", "f2", "i4", "i8", "u1", "i1", "?", "u2"]))
        generator = np.random.default_rng(r.randrange(2**32))
        found[n] = _feed(generator, np.zeros(shape, dtype), "noise")
    return found


def _feed(generator: np.random.Generator, like: Any, kind: str) -> Any:
    """Return values for an input, of its shape and dtype."""
    shape, dtype = like.shape, like.dtype
    if kind == "zeros":
        return np.zeros(shape, dtype)
    if dtype.kind == "b":
        return np.asarray(generator.random(shape) < 0.5)
    if dtype.kind != "f" or kind == "whole":
        return np.asarray(generator.integers(0 if dtype.kind == "u" else -4, 6, shape)).astype(dtype)
    x = np.asarray(generator.standard_normal(shape) * 2)
    if kind == "special":
        x = np.where(generator.random(shape) < 0.3, generator.choice(SPECIAL, shape), x)
    with np.errstate(over="ignore"):
        return np.asarray(x.astype(dtype))


def _added(r: Random, v: dict[str, Any], lines: list[str]) -> bool:
    """Try one more statement, and add it if NumPy runs it."""
    kind = r.random()
    generate = grammar.expression if kind < 0.75 else grammar.writing if kind < 0.9 else grammar.control
    found = generate(r, v)
    if not found:
        return False
    new = f"v{len([n for n in v if n[0] == 'v'])}"
    statement = f"V = {found}" if generate is grammar.expression else found
    statement = statement.replace("V", new)
    scope: dict[str, Any] = {n: x.copy() for n, x in v.items()}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(statement, {"np": np, "self": _Namespace, **scope}, scope)
        except Exception:
            return False
    x = scope.get(new)
    if not isinstance(x, (np.ndarray, np.generic)) or x.dtype.kind not in "biuf" or x.size > _MOST or not x.size:
        return False
    v[new] = np.asarray(x)
    lines.append(statement)
    return True
