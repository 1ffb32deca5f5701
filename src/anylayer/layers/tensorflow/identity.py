"""Operations that give what they get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anylayer.layers.tensorflow._base import Operation, attribute, layer, need


@layer("Identity")
@layer("StopGradient")
@layer("PreventGradient")
@layer("Snapshot")
@layer("CheckNumerics")
@layer("ReadVariableOp")
class Identity(Operation):
    """The input as it is."""

    harmless = frozenset({"message", "dtype"})

    def forward(self, x: Any) -> Any:
        return x


@layer("IdentityN")
class IdentityN(Operation):
    """The inputs as they are."""

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        types = attr.get("T")
        need(isinstance(types, list), "attribute 'T' must be a list of dtypes")
        return (("output", len(types or ())),)

    def forward(self, *xs: Any) -> Any:
        return list(xs)


@layer("PlaceholderWithDefault")
class PlaceholderWithDefault(Operation):
    """What is used where nothing is fed: its default."""

    shape: Any = attribute("any", None)
    harmless = frozenset({"dtype"})

    def forward(self, default: Any) -> Any:
        self.note("is not fed: its default is used")
        return default


@layer("EnsureShape")
class EnsureShape(Operation):
    """The input as it is, which must have a shape."""

    shape: Any = attribute("any", None)

    def forward(self, x: Any) -> Any:
        wanted = self.shape
        fits = wanted is None or (
            len(wanted) == len(x.shape) and all(w is None or w == d for w, d in zip(wanted, x.shape))
        )
        need(fits, f"the shape must be {wanted}, got {list(x.shape)}")
        return x
