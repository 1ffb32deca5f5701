"""What all of OpenVINO's operations share: where their attributes stand, and which opset they are from."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import TraceError
from anylayer.layer import Enum, Layer, Message, layer, need
from anylayer.layer.contract import MAX_WEIGHT_VALUES
from anylayer.network import Array, Node
from anylayer.tracing import is_traced

NEWEST = 17
LARGEST = 1 << 24
"""Values along an axis of what an attribute or a constant asks for."""


class Operation(Layer):
    """An operation of an opset. `opset` is the number of the opset that the file names for it (1 where it names
    none): an operation's meaning may depend on it."""

    message = "data"
    harmless: ClassVar[frozenset[str]] = frozenset()
    """Attributes that no value of the network depends on."""
    opset: int

    def prepare(self, node: Node, dialect: str | None) -> None:
        version = str(node.params.get("version", "opset1"))
        found = re.fullmatch(r"opset(\d{1,3})", version)
        need(
            found is not None and 1 <= int(found[1]) <= NEWEST,
            f"is of version '{version}', opset1 to opset{NEWEST} are known. An operation of an extension is "
            "defined by a class in a layers file",
        )
        self.opset = int(found[1]) if found else 1
        data = node.params.get("data", {})
        kept = {name: value for name, value in data.items() if name not in self.harmless}
        super().prepare(replace(node, params={"data": kept}), dialect)

    def _take(self, target: Message, name: str, node: Node) -> None:
        """As the file means it: an empty text is an empty list, words count in either case, - in a name is _."""
        data = node.params.get(name, {})
        if isinstance(data, Mapping):
            meant = {k.replace("-", "_"): self._meant(k.replace("-", "_"), v) for k, v in data.items()}
            node = replace(node, params={**node.params, name: meant})
        super()._take(target, name, node)

    def _meant(self, name: str, value: Any) -> Any:
        declared = self.fields.get(name)
        if declared is None or not isinstance(value, str):
            return value
        if declared.repeated and not value:
            return []
        return value.lower() if isinstance(declared.kind, Enum) else value


def family(functions: Mapping[str, tuple[Callable[..., Any], str]], base: type[Operation], module: str) -> None:
    """Define operations that have no attributes but their base's, each by a function of its inputs and a line
    that says what it gives."""
    for name, (function, what) in functions.items():
        layer(name)(
            type(name, (base,), {"__doc__": what, "__module__": module, "compute": staticmethod(function)})
        )


def known(x: Any, what: str) -> Array:
    """An input that decides shapes: known before the network runs."""
    need(
        not is_traced(x),
        f"{what} must be known before the network runs; here it is computed from the network's inputs",
        TraceError,
    )
    return np.asarray(x)


def whole(x: Any, what: str) -> list[int]:
    """The whole numbers of such an input, as a list."""
    values = known(x, what)
    need(values.dtype.kind in "iu", f"{what} must be whole numbers, got {values.dtype}")
    return [int(v) for v in values.reshape(-1)]


def need_sizes(shape: Sequence[int], what: str = "the output") -> None:
    """Refuse a shape that no memory holds, before anything of it is made."""
    need(
        all(0 <= d <= LARGEST for d in shape) and math.prod(shape) <= MAX_WEIGHT_VALUES,
        f"{what} would be of shape {tuple(shape)}; the limit is {LARGEST} along an axis and "
        f"{MAX_WEIGHT_VALUES} values",
    )


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """An axis, counted from the end where negative, as 0..rank-1."""
    need(-rank <= axis < rank, f"{what} must lie in {-rank}..{rank - 1} for {rank} axes, got {axis}")
    return axis % rank


def axes_of(axes: Sequence[int], rank: int, what: str = "axes") -> list[int]:
    """Axes as 0..rank-1; each at most once."""
    found = [axis_of(axis, rank, what) for axis in axes]
    need(len(set(found)) == len(found), f"{what} names an axis twice: {list(axes)}")
    return found
