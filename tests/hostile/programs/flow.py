"""Inputs, expressions and bodies of loops of programs whose control flow depends on data; see flow_statements.

All values are multiples of 1/4, and only quotients are rounded, so that NumPy and an engine must take the same
branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

KINDS = (
    "noise", "whole", "zeros", "ties", "low", "high", "one high", "rising", "falling", "large", "clusters",
    "noise",
)  # fmt: skip
"""The kinds of values of the inputs, in the order of the feeds."""
THRESHOLDS = ["0", "0.5", "0.25", "1", "-1", "2", "100", "-100"]
SHARES = ["0.3", "0.5", "0.45", "0.7", "0.0", "1.0"]


def feed(generator: np.random.Generator, like: Any, kind: str) -> Any:
    """Return values of a kind for an input: boxes in (N, 4 or more), else numbers around 0."""
    shape, dtype = like.shape, like.dtype
    n = shape[0] if shape else 1
    x = generator.integers(-8, 9, shape) / 4
    if kind == "zeros":
        x = x * 0
    elif kind in ("whole", "ties"):
        x = np.floor(x) if kind == "whole" else x * 0 + generator.integers(-2, 4)
    elif kind in ("low", "high", "large"):
        x = x + {"low": -64, "high": 64, "large": 0}[kind]
        x = x * 2.0**14 if kind == "large" else x
    elif kind == "one high" and n:
        x = np.asarray(x - 64)
        x[(generator.integers(n), ...) if shape else ()] += 72
    elif kind in ("rising", "falling"):
        x = np.sort(x, axis=0) if shape else x
        x = x if kind == "rising" or not shape else x[::-1]
    if len(shape) == 2 and shape[1] >= 4 and kind not in ("zeros", "large"):
        corner = generator.integers(0, 3 if kind == "clusters" else 12, (n, 2))
        x = np.concatenate([corner, corner + generator.integers(1, 8, (n, 2)), x[:, 4:]], axis=1)
        x = x[np.zeros(n, int)] if kind == "ties" else x
    if dtype.kind in "iu":
        x = np.clip(np.floor(np.abs(x)), 0, 100)
    return np.asarray(x).astype(dtype)


def inputs(r: Random) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """Return zeros for each input, and its shape with names for the open sizes."""
    n, steps = r.choice([1, 2, 3, 3, 4, 4, 5, 5, 6, 7]), r.choice([2, 3, 4, 5])
    columns, classes = r.choice([4, 5, 5, 6]), r.choice([2, 3])
    dtype = r.choice(["f4"] * 6 + ["f8"])
    every: dict[str, tuple[tuple[Any, ...], str]] = {
        "boxes": (("n", columns), dtype),
        "scores": (("n",), dtype),
        "labels": (("n",), r.choice(["i8", "i4"])),
        "x": (("t", classes), dtype),
        "limit": ((), dtype),
    }
    chosen = ["boxes", "scores", *[k for k, p in (("labels", 0.3), ("x", 0.35), ("limit", 0.3)) if r.random() < p]]
    chosen = chosen if r.random() < 0.75 else chosen[1:]
    sizes = {"n": n, "t": steps}
    shapes = {k: every[k][0] for k in chosen}
    return {k: np.zeros([sizes.get(d, d) for d in shapes[k]], every[k][1]) for k in chosen}, shapes


@dataclass(slots=True)
class Scope:
    """The variables of a program: an example value of each. `r` chooses."""

    r: Random
    values: dict[str, Any]

    def pick(self, kind: str, dimensions: int) -> str | None:
        """Return an array with a dtype of these kinds and so many axes, preferably a late one."""
        fitting = [
            name
            for name, x in self.values.items()
            if isinstance(x, np.ndarray) and x.dtype.kind in kind and x.ndim == dimensions
        ]
        return fitting[-1 - min(int(self.r.expovariate(0.4)), len(fitting) - 1)] if fitting else None

    def vector(self) -> str:
        rows = self.pick("f", 2)
        if rows and self.r.random() < 0.25:
            return f"{rows}[:, {self.r.randrange(self.values[rows].shape[1])}]"
        return self.pick("f", 1) or "scores"

    def mask(self) -> str:
        """Return a mask of a vector or of rows, or a variable with one."""
        known = self.pick("b", 1)
        if known and self.r.random() < 0.3:
            return known
        return self.mask_of(self.vector())

    def mask_of(self, vector: str) -> str:
        r, t = self.r, self.threshold()
        return r.choice(
            [
                f"({vector} {r.choice(['>', '>=', '<', '<=', '!=', '>'])} {t})",
                f"({vector} > {t})",
                f"(({vector} > {t}) & ({vector} <= {self.threshold()}))",
                f"(({vector} < {t}) | ({vector} > {self.threshold()}))",
                f"~({vector} > {t})",
                f"np.logical_and({vector} > {t}, {vector} < 3)",
                f"(np.abs({vector}) < {t})",
            ]
        )

    def threshold(self) -> str:
        if "limit" in self.values and self.r.random() < 0.2:
            return "limit"
        return self.r.choice(THRESHOLDS)

    def number(self, extra: Sequence[str] = (), depth: int = 0) -> str:
        """Return an expression of one number. extra: further ones."""
        r, v = self.r, self.vector()
        if extra and r.random() < 0.6:
            return r.choice(extra)
        if depth > 1:
            return r.choice(
                [f"{v}[0]", f"{v}[-1]", f"{v}.max()", f"{v}.min()", f"{self.mask()}.sum()", self.threshold()]
            )
        one, two = self.number(extra, depth + 1), self.number(extra, depth + 1)
        known = self.pick("fi", 0)
        return r.choice(
            [
                f"{v}.max()",
                f"{v}.min()",
                f"{v}.sum()",
                f"{v}[0]",
                f"{v}[-1]",
                f"len({v}[{self.mask_of(v)}])",
                f"{self.mask()}.sum()",
                f"np.sum({self.mask()})",
                f"float({v}.sum())",
                f"int({v}.max())",
                f"{v}[{v}.argmax()]",
                f"max({one}, {two})",
                f"min({one}, {two})",
                f"max({one}, {two}, 1)",
                f"abs({one})",
                f"round(float({one}))",
                f"({one} if {self.condition(extra, depth + 1)} else {two})",
                f"{one} * 2",
                f"{one} + {two}",
                f"{one} - {two}",
                known or f"{v}[0]",
                self.threshold(),
            ]
        )

    def condition(self, extra: Sequence[str] = (), depth: int = 0) -> str:
        """Return an expression of one truth value."""
        r = self.r
        if depth < 2 and r.random() < 0.25:
            a, b = self.condition(extra, depth + 1), self.condition(extra, depth + 1)
            return r.choice([f"({a} and {b})", f"({a} or {b})", f"not ({a})", f"({a} and not ({b}))"])
        a, b = self.number(extra, depth + 1), self.threshold()
        m, v = self.mask(), self.vector()
        compared = f"{a} {r.choice(['>', '<', '>=', '<=', '==', '!='])} {b}"
        if extra and r.random() < 0.6:
            return compared
        return r.choice(
            [
                compared,
                f"{a} > {self.number(extra, depth + 1)}",
                f"{r.choice(['-1', '0'])} < {a} <= {r.choice(['1', '3', b])}",
                f"{m}.any()",
                f"{m}.all()",
                f"not {m}.any()",
                f"np.any({m})",
                f"len({v}[{self.mask_of(v)}]) == 0",
                f"{v}[{self.mask_of(v)}].size > {r.choice(['0', '1', '2'])}",
                f"np.count_nonzero({m}) >= {r.choice(['1', '2'])}",
                f"{v}.argmax() == 0",
                f"bool({m}.any())",
                f"{v}.max() > {v}.sum()",
            ]
        )


def indented(text: str, by: int = 4) -> str:
    return "\n".join(" " * by + line for line in text.split("\n"))


@dataclass(slots=True)
class Loop:
    """The names that a loop's body can read, and what it carries: the statements that initialize it."""

    s: Scope
    numbers: list[str]
    rows: list[str]
    index: str = ""
    length: str = ""
    start: dict[str, str] | None = None

    def carried(self, name: str, *starts: str) -> str:
        """Return the name of a carried variable, which gets a first value before the loop."""
        if self.start is None:
            self.start = {}
        self.start.setdefault(f"{name}V", self.s.r.choice(starts))
        return f"{name}V"

    def step(self, depth: int = 0) -> str:
        """Return a statement of the body."""
        r, s = self.s.r, self.s
        e = s.number(self.numbers, 1)
        c = s.condition(self.numbers, 1)
        kind = r.random()
        if kind < 0.22 and depth < 2:
            return self._branch(c, depth)
        if kind < 0.30:
            return f"if {c}:\n    {r.choice(['break', 'continue', 'continue'])}"
        if kind < 0.42 and self.rows:
            return self._row(r.choice(self.rows))
        if kind < 0.60:
            kept = self.carried("keep", "[]")
            return r.choice(
                [
                    f"{kept}.append({e})",
                    f"if {c}:\n    {kept}.append({e})",
                    f"{kept} += [{e}]",
                    f"{kept} = {kept} + [{e}]",
                    f"{kept}.append({r.choice(self.numbers)})",
                    f"if len({kept}) == 2:\n    break",
                    f"if len({kept}) < 2:\n    {kept}.append({e})",
                    f"if {kept} and {kept}[-1] > {e}:\n    {kept}[-1] = {e}",
                ]
            )
        if kind < 0.70 and self.index:
            done = self.carried("done", f"np.zeros({self.length}, {r.choice(['bool', 'np.int64', 'np.float32'])})")
            i = self.index
            return r.choice(
                [
                    f"{done}[{i}] = 1",
                    f"if {c}:\n    {done}[{i}] = True",
                    f"{done}[{i}] = {c}",
                    f"if {done}[{i}]:\n    continue",
                    f"if {done}[{i}] == 0:\n    {done}[{i}:] = 1",
                    f"{done}[{i}] = {done}[{i} - 1] + 1",
                ]
            )
        return self._number(e, c)

    def _number(self, e: str, c: str) -> str:
        r = self.s.r
        n, best = self.carried("n", "0", "0", "1"), self.carried("best", "-1.0", "0.0", "np.float32(0)", "0")
        flag, prev = self.carried("flag", "False", "True"), self.carried("prev", "0.0", "-1", "np.float32(1)")
        return r.choice(
            [
                f"{n} += 1",
                f"{n} = {n} + 1",
                f"if {c}:\n    {n} += 1",
                f"{n} += {e}",
                f"{best} = max({best}, {e})",
                f"{best} = min({best}, {e})",
                f"if {e} > {best}:\n    {best} = {e}",
                f"{best} = {e} if {e} > {best} else {best}",
                f"{best} = np.maximum({best}, {e})",
                f"{best} += {e}",
                f"if {e} > {prev}:\n    {n} += 1\n{prev} = {e}",
                f"{prev} = {e}",
                f"{prev}, {best} = {best}, {e}",
                f"{flag} = {flag} or {c}",
                f"{flag} = not {flag}",
                f"if {c}:\n    {flag} = not {flag}",
                f"if {flag}:\n    {n} += 1\n    {flag} = {c}",
                f"{flag} = {c}",
                f"if {n} == 2:\n    break",
            ]
        )

    def _row(self, row: str) -> str:
        r = self.s.r
        total, kept = self.carried("total", f"np.zeros_like({row0(row)})"), self.carried("rows", "[]")
        return r.choice(
            [
                f"{total} += {row}",
                f"{total} = {total} + {row}",
                f"{total} = np.maximum({total}, {row})",
                f"{kept}.append({row})",
                f"{kept}.append({row} * 2)",
                f"if {row}.sum() > {self.s.threshold()}:\n    {kept}.append({row})",
                f"if {row}.max() > {total}.max():\n    {total} = {row}",
                f"{total} = np.where({row} > {total}, {row}, {total})",
            ]
        )

    def _branch(self, c: str, depth: int) -> str:
        text = f"if {c}:\n{indented(self.step(depth + 1))}"
        if self.s.r.random() < 0.3:
            text += f"\nelif {self.s.condition(self.numbers, 1)}:\n{indented(self.step(depth + 1))}"
        if self.s.r.random() < 0.6:
            text += f"\nelse:\n{indented(self.step(depth + 1))}"
        return text

    def text(self, head: str, before: str = "", first: str = "", last: str = "") -> str:
        """Return the whole loop."""
        steps = [first, *(self.step() for _ in range(self.s.r.choice([1, 1, 2, 2, 3]))), last]
        start = [before, *(f"{n} = {e}" for n, e in (self.start or {}).items())]
        end = self._results()
        body = "\n".join(t for t in steps if t)
        return "\n".join(t for t in [*start, f"{head}:\n{indented(body)}", *end] if t)

    def _results(self) -> list[str]:
        """Return statements that read what the loop has carried."""
        r, found = self.s.r, []
        for name in self.start or {}:
            if name.startswith("keep"):
                kept = [f"np.array({name})", f"np.array({name}, np.float32)", f"np.float32(len({name}))"]
                kept += [f"np.array({name}[:2], np.float32)", f"np.asarray({name}, dtype=np.float32)"]
                found.append(f"a{name} = {r.choice(kept)}")
            elif name.startswith("rows"):
                found.append(r.choice([f"a{name} = np.array({name})", f"a{name} = np.stack({name})"]))
        return found


def row0(row: str) -> str:
    """Return an expression of the shape and dtype of a row that exists before the loop."""
    return row.split("[")[0] + "[0]" if "[" in row else "boxes[0]"
