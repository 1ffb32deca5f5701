"""A random program: the source code of a layer's class, its inputs, and values for them. All of it follows from a
seed.
"""

from __future__ import annotations

import textwrap
import warnings
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from . import grammar

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e-30)
_MOST = 2000
"""The number of values of the largest variable."""
_HEAD = """import numpy as np


class Program:
    def __init__(self, params, blobs):
        self.table = np.arange(1, 9, dtype=np.float32) / 4

    def halved(self, x):
        return x * np.float32(0.5)

    def forward(self, inputs):
        {names} = inputs
"""


@dataclass(slots=True)
class Program:
    """A program. `feeds` are dicts of arrays: noise, small integers, zeros. If it is `special`, one more feed has
    NaN and infinity among its floats.
    """

    seed: int
    text: str
    feeds: list[dict[str, Any]] = field(default_factory=list)
    outputs: int = 1
    special: bool = False


class _Namespace:
    """The object that replaces `self` while the program is made."""

    table = np.arange(1, 9, dtype=np.float32) / 4

    @staticmethod
    def halved(x: Any) -> Any:
        return x * np.float32(0.5)


def make(seed: int) -> Program:
    """Return the program of a seed."""
    r = Random(seed)
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
    text = _HEAD.format(names=", ".join(inputs) + ",") + textwrap.indent(body, " " * 8) + "\n"
    special = r.random() < 0.2
    generator = np.random.default_rng(seed)
    feeds = [{n: _feed(generator, x, kind) for n, x in inputs.items()} for kind in ("noise", "whole", "zeros")]
    if special:
        feeds.append({n: _feed(generator, x, "special") for n, x in inputs.items()})
    return Program(seed, text, feeds, len(outputs), special)


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
