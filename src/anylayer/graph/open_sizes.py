"""Open sizes of inputs: sizes that a file leaves to its caller, such as "H" or "32*h"."""

from __future__ import annotations

import ast
import json
import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anylayer.errors import InputError, need
from anylayer.graph.expressions import Expression, constant, symbol
from anylayer.graph.guards import Guard
from anylayer.graph.symbolic import new_size
from anylayer.network import MAX_VALUES, DType, Function, TensorType

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|([-+*]))")
_NAME = re.compile(r"[A-Za-z_]\w*")
_RANGE = re.compile(r"\s*(?:(\d+)\s*<=)?\s*([^<>=]+?)\s*(?:(<=|>=)\s*(\d+))?\s*")


@dataclass(frozen=True, slots=True)
class OpenSizes:
    """The shapes of inputs whose sizes stay open.

    `shapes` maps an input to its sizes, each an expression. `ranges` are the least and the largest value of each
    symbol, in the order in which they occur. `guards` are further conditions, which the network's layers need, and
    `texts` those that its file states.
    `traced` are the values of the symbols at which the network was traced. `dtypes` are those of the inputs whose
    type is not known without these sizes.
    """

    shapes: Mapping[str, tuple[Expression, ...]]
    ranges: Mapping[str, tuple[int, int]]
    guards: tuple[Guard, ...] = ()
    texts: tuple[str, ...] = ()
    traced: tuple[Mapping[str, int], ...] = ()
    dtypes: Mapping[str, DType] = field(default_factory=dict)

    def allow(self, symbols: Mapping[str, int]) -> bool:
        """Return whether the values of the symbols lie in their ranges and fulfil the conditions."""
        inside = all(low <= symbols[name] <= high for name, (low, high) in self.ranges.items())
        stated = inside and all(evaluate(text, symbols) is not False for text in self.texts)
        return stated and all(g.holds(symbols) for g in self.guards)

    def of_inputs(self, names: Sequence[str]) -> OpenSizes | None:
        """Return the open sizes of some inputs only, or None where these have none."""
        shapes = {n: s for n, s in self.shapes.items() if n in names}
        used = {name for shape in shapes.values() for e in shape for name in e.symbols}
        if used:
            return replace(self, shapes=shapes, ranges={n: r for n, r in self.ranges.items() if n in used})
        return None

    def symbols_of(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int] | None:
        """Return the values of the symbols at which the inputs have these shapes, or None where there are none."""
        values: dict[str, int] = {}
        for name, shape in self.shapes.items():
            for e, d in zip(shape, shapes[name]):
                only = next(iter(e.symbols), "")
                line = solved(e, only)
                if line is not None and only not in values:
                    values[only] = (d - line[1]) // line[0]
        if {*values} != {*self.ranges}:
            return None
        same = all(tuple(e.value(values) for e in s) == tuple(shapes[n]) for n, s in self.shapes.items())
        return values if same else None

    def conditions(self) -> list[str]:
        """Return the ranges and the conditions as text."""
        texts = []
        for name, (low, high) in self.ranges.items():
            if high < MAX_VALUES:
                texts.append(f"{low} <= {name} <= {high}")
            elif low > 1:
                texts.append(f"{name} >= {low}")
        return list(dict.fromkeys((*texts, *self.texts, *map(str, self.guards))))

    def stated(self) -> StatedSizes:
        """Return what a file states about these sizes."""
        return StatedSizes({n: tuple(map(str, s)) for n, s in self.shapes.items()}, tuple(self.conditions()))

    @property
    def symbols(self) -> list[str]:
        """The names of the symbols, in the order in which they occur."""
        return list(self.ranges)

    def symbolic_types(
        self, types: Mapping[str, TensorType | None], symbols: Mapping[str, int]
    ) -> dict[str, TensorType | None]:
        """Return the types of the inputs at these values of the symbols, with symbolic sizes."""
        result = dict(types)
        for name, shape in self.shapes.items():
            plain = self.types(types, symbols)[name]
            if plain is not None:
                result[name] = TensorType(tuple(map(new_size, plain.shape, shape)), plain.dtype)
        return result

    def types(
        self, types: Mapping[str, TensorType | None], symbols: Mapping[str, int]
    ) -> dict[str, TensorType | None]:
        """Return the types of the inputs at these values of the symbols, with plain numbers as sizes."""
        result = dict(types)
        for name, shape in self.shapes.items():
            kind = types[name]
            dtype = kind.dtype if kind is not None else self.dtypes.get(name, np.dtype(np.float32))
            result[name] = TensorType(tuple(e.value(symbols) for e in shape), dtype)
        return result


@dataclass(frozen=True, slots=True)
class StatedSizes:
    """What a written file states about its open sizes: the sizes of each input and the conditions, as text."""

    shapes: Mapping[str, Sequence[str]]
    conditions: Sequence[str]

    def to_json(self) -> str:
        """Return the statement as the text of a file's metadata."""
        return json.dumps(
            {"shapes": {n: list(s) for n, s in self.shapes.items()}, "conditions": list(self.conditions)}
        )

    def __str__(self) -> str:
        inputs = ", ".join(f"{n} ({', '.join(s)})" for n, s in self.shapes.items())
        return f"open sizes: {inputs}" + (f" with {'; '.join(self.conditions)}" if self.conditions else "")

    @staticmethod
    def from_json(text: str) -> StatedSizes | None:
        """Return the statement in a file's metadata, or None where it is damaged."""
        try:
            content: Any = json.loads(text) if len(text) <= _MAX_LENGTH else None
            shapes = {str(n): tuple(map(str, s)) for n, s in content["shapes"].items()}
            return StatedSizes(shapes, tuple(map(str, content["conditions"])))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

    def check(self, types: Mapping[str, TensorType | None]) -> None:
        """Raise InputError for shapes of inputs that do not fulfil the conditions.

        A condition that this version does not understand is not checked.
        """
        symbols: dict[str, int] = {}
        for name, text, only, (factor, offset), d in self._lines({n: t.shape for n, t in types.items() if t}):
            value, rest = divmod(d - offset, factor)
            need(rest == 0 and value >= 0, f"input '{name}': a size must be {text}, got {d}", InputError)
            need(
                symbols.setdefault(only, value) == value,
                f"input '{name}': {only} is {symbols[only]} at another size, so {text} must not be {d}",
                InputError,
            )
        for condition in self.conditions:
            if evaluate(condition, symbols) is False:
                sizes = ", ".join(f"{n} = {v}" for n, v in symbols.items())
                raise InputError(f"the file allows only sizes with {condition}, got {sizes}")

    def conditions_on(self, shapes: Mapping[str, Sequence[int | Expression]]) -> tuple[str, ...]:
        """Return the conditions in the symbols of other `shapes` of the inputs."""
        names: dict[str, str] = {}
        for _, _, only, (factor, offset), d in self._lines(shapes):
            text = str(d) if str(d).isalnum() else f"({d})"
            names.setdefault(only, text if (factor, offset) == (1, 0) else f"(({text} - {offset})//{factor})")
        return tuple(_NAME.sub(lambda m: names.get(m[0], m[0]), text) for text in self.conditions)

    def _lines(self, shapes: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, str, str, tuple[int, int], Any]]:
        """Yield (input, text, symbol, (factor, offset), size in `shapes`) of sizes factor * symbol + offset."""
        for name, texts in self.shapes.items():
            shape = shapes.get(name, ())
            for text, d in zip(texts, shape if len(shape) == len(texts) else ()):
                e = _parse_sum(text)
                only = next(iter(e.symbols), "") if e is not None else ""
                line = solved(e, only) if e is not None and only else None
                if line is not None:
                    yield name, text, only, line, d


SIZES = "anylayer.sizes"
"""The key of the statement in a file's metadata."""
_MAX_LENGTH = 100_000
"""The largest number of characters of a statement that are read."""


def parse_sizes(
    shapes: Mapping[str, Sequence[Any]], dtypes: Mapping[str, DType] | None = None
) -> OpenSizes | None:
    """Return the shapes that have open sizes, or None if there are none. dtypes: see OpenSizes.

    A size is a number, or text: a sum of products of numbers and names ("N", "32*h", "h + 1"), with a range if it
    is limited ("H>=64", "64<=H<=2048"). Raises InputError for anything else, and where ranges contradict each
    other.
    """
    limits: dict[str, tuple[int, int]] = {}
    open_shapes: dict[str, tuple[Expression, ...]] = {}
    for name, shape in shapes.items():
        if any(isinstance(d, (str, Expression)) for d in shape):
            open_shapes[name] = tuple(_size(d, f"input '{name}'", limits) for d in shape)
    if not open_shapes:
        return None
    for name, (low, high) in limits.items():
        need(
            low <= high,
            f"size '{name}' must be at least {low} and at most {high}, which is impossible",
            InputError,
        )
    return OpenSizes(open_shapes, limits, dtypes=dtypes or {})


def _size(text: Any, where: str, limits: dict[str, tuple[int, int]]) -> Expression:
    """Return one size as an expression, and add its symbols with their ranges to `limits`."""
    if isinstance(text, Expression):
        limits.update({name: limits.get(name, (1, MAX_VALUES)) for name in sorted(text.symbols)})
        return text
    if isinstance(text, (int, np.integer)):
        need(text >= 0, f"{where}: a size must be 0 or more, got {text}", InputError)
        return constant(int(text))
    parts = _RANGE.fullmatch(text) if isinstance(text, str) else None
    size = _parse_sum(parts.group(2)) if parts is not None else None
    if parts is None or size is None:
        raise InputError(
            f"{where}: size '{text}' is not understood; write a number, a name, a sum or a multiple (N, 32*h, "
            "h+1), or a name with its range (H>=64, 64<=H<=2048)"
        )
    need(
        all(factor > 0 for product, factor in size.terms.items() if product),
        f"{where}: size '{text}' subtracts a name, so it may be negative; write a sum or a multiple",
        InputError,
    )
    low, _, relation, bound = parts.groups()
    only = next(iter(size.symbols)) if size.symbols and str(size) in size.symbols else None
    need(only is not None or not (low or bound), f"{where}: a range belongs to one name, got '{text}'", InputError)
    need(
        not (low and relation == ">="),
        f"{where}: write the range of '{only}' as {low}<={only}<=MAX, got '{text}'",
        InputError,
    )
    for name in sorted(size.symbols, key=text.index):
        least, most = limits.get(name, (1, MAX_VALUES))
        if name == only:
            least = max(least, int(low or 1), int(bound) if relation == ">=" else 1)
            most = min(most, int(bound) if relation == "<=" else MAX_VALUES)
        limits[name] = least, most
    return size


def _parse_sum(text: str) -> Expression | None:
    """Return a sum of products of numbers and names, or None if the text is something else."""
    total, product, sign, at = constant(0), None, 1, 0
    wants_factor = True
    while at < len(text.rstrip()):
        token = _TOKEN.match(text, at)
        if token is None or (token.group(3) is None) != wants_factor:
            return None
        at = token.end()
        number, name, operation = token.groups()
        if operation is None:
            factor = constant(int(number)) if number else symbol(name)
            product = factor if product is None else product * factor
        elif operation != "*" and product is not None:
            total = total + constant(sign) * product
            product, sign = None, 1 if operation == "+" else -1
        wants_factor = operation is not None
    return None if wants_factor or product is None else total + constant(sign) * product


def solved(e: Expression, name: str) -> tuple[int, int] | None:
    """Return (factor, offset) if the expression is factor * name + offset, else None."""
    factor, offset = 0, 0
    for monomial, c in e.terms.items():
        if not monomial:
            offset = c
        elif len(monomial) == 1 and monomial[0][1] == 1 and not monomial[0][0].function:
            if monomial[0][0].name != name:
                return None
            factor = c
        else:
            return None
    return (factor, offset) if factor else None


# ---- conditions on sizes as text, such as "2*(H//2) == H", which are evaluated without running code

_MAX_CONDITION = 2000
"""The largest number of characters of a condition that are read."""
_OPERATIONS: dict[type[ast.AST], Function] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.USub: operator.neg, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS: dict[str, Function] = {
    "min": min, "max": max, "floor": math.floor, "ceil": math.ceil, "round": round, "sqrt": math.sqrt,
    "abs": abs,
}  # fmt: skip


def evaluate(text: str, symbols: Mapping[str, int]) -> bool | None:
    """Return whether a condition holds for these values, or None where it cannot be evaluated."""
    try:
        tree = ast.parse(text, mode="eval").body if len(text) <= _MAX_CONDITION else None
        return bool(_value(tree, symbols)) if isinstance(tree, ast.Compare) else None
    except (SyntaxError, ValueError, ArithmeticError, KeyError, TypeError, RecursionError, MemoryError):
        return None


def _value(node: ast.AST, symbols: Mapping[str, int]) -> Any:
    """Return the value of a node. Raises ValueError for what is not arithmetic, KeyError for an unknown name."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.Name):
        return symbols[node.id]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, exponent = _value(node.left, symbols), _value(node.right, symbols)
        if isinstance(base, int) and not (isinstance(exponent, int) and 0 <= exponent <= 4):
            base = float(base)  # an integer power could be very large
        return base**exponent
    if isinstance(node, ast.BinOp):
        return _OPERATIONS[type(node.op)](_value(node.left, symbols), _value(node.right, symbols))
    if isinstance(node, ast.UnaryOp):
        return _OPERATIONS[type(node.op)](_value(node.operand, symbols))
    if isinstance(node, ast.Compare):
        values = [_value(n, symbols) for n in (node.left, *node.comparators)]
        return all(_OPERATIONS[type(o)](a, b) for o, a, b in zip(node.ops, values, values[1:]))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _FUNCTIONS[node.func.id](*(_value(n, symbols) for n in node.args))
    raise ValueError(type(node).__name__)
