"""Random networks: one layer of any built-in type, with any values in its declared fields, on any inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from anylayer.layer import Enum, Field, Layer, Message, Registry
from anylayer.layer.fields import MISSING
from tests.readers.files import blob, floats, layer, message, shape

_SHAPES = (
    (1, 3, 8, 8),
    (2, 4, 6, 5),
    (1, 12, 4, 4),
    (1, 1, 1, 1),
    (1, 6),
    (2, 5),
    (3, 2, 5),
    (4,),
    (),
    (0, 3, 4, 4),
    (1, 1, 2, 40),
    (1, 40),
    (2, 3, 2, 4, 5),
)
_SMALL = (1, 2, 3, 4)
_WHOLE = (0, -1, -2, 5, 7, 16, 100, 10**5, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1)
_REAL = (0.0, 1.0, -1.0, 0.5, 2.0, 1e-30, 1e30, -1e30, 3.3)
_TEXTS = ("", "constant", "xavier", "bilinear", "gaussian", "a,b", "../x")
_WORDS = ("inf", "-inf", "nan", "true", '"1"', "1.5", "MAX", "{ }")


@dataclass(frozen=True)
class Try:
    """A prototxt, and perhaps a .caffemodel."""

    text: str
    weights: bytes | None = None

    def __repr__(self) -> str:
        return f"\n{self.text}weights: {self.weights!r}\n"


def definitions() -> list[Any]:
    """Return the built-in layers of Caffe, one definition per class."""
    return sorted((d for d in Registry.of("caffe").definitions() if d.typed), key=lambda d: (d.type, d.dialects))


@st.composite
def tries(draw: Any, found: list[Any]) -> Try:
    """Draw a network with a layer that one of the definitions `found` defines."""
    cls: type[Layer] = (definition := draw(st.sampled_from(found))).cls
    usual = 1 if cls.role else draw(st.sampled_from((1, 1, 1, 2, 2, 3, 0, 4)))
    bottoms = draw(st.lists(st.sampled_from(range(3)), min_size=usual, max_size=usual))
    shapes = [draw(st.sampled_from(_SHAPES)) for _ in range(max(bottoms, default=-1) + 1)]
    text = "".join(_input(i, s) for i, s in enumerate(shapes))
    tops = draw(st.sampled_from((1, 1, 1, 1, 1, 2, 3, 0)))
    words = [f'name: "l" type: "{definition.type}"']
    words += [f'bottom: "in{i}"' for i in bottoms] + [f'top: "t{i}"' for i in range(tops)]
    if draw(st.integers(0, 9)) == 0 and bottoms and tops:
        words[-tops] = f'top: "in{bottoms[0]}"'
    for name, kind in {cls.message: cls, **cls.also}.items():
        if name:
            words.append(f"{name} {draw(messages(kind))}")
    text += f"layer {{ {' '.join(words)} }}\n"
    if draw(st.booleans()) and tops:
        text += 'layer { name: "after" type: "ReLU" bottom: "t0" top: "end" }\n'
    return Try(text, draw(weights()) if draw(st.integers(0, 2)) == 0 else None)


def _input(i: int, dims: tuple[int, ...]) -> str:
    shown = " ".join(f"dim: {d}" for d in dims)
    return f'layer {{ name: "i{i}" type: "Input" top: "in{i}" input_param {{ shape {{ {shown} }} }} }}\n'


@st.composite
def messages(draw: Any, kind: type[Message], depth: int = 0) -> str:
    """Draw `{ field: value ... }` with some of a message's fields."""
    words = []
    for name, field in kind.fields.items():
        often = 3 if field.repeated or _is_required(field) else 2
        if draw(st.integers(0, 4)) < often:
            count = draw(st.integers(0, 3)) if field.repeated else 1 + (draw(st.integers(0, 29)) == 0)
            words += [f"{name}{draw(values(field, depth))}" for _ in range(count)]
    return "{ " + " ".join(words) + " }"


def _is_required(field: Field) -> bool:
    return not field.repeated and field.default is MISSING


@st.composite
def values(draw: Any, field: Field, depth: int) -> str:
    """Draw `: value` for a field, mostly of the field's kind."""
    if draw(st.integers(0, 39)) == 0:
        return f": {draw(st.sampled_from(_WORDS))}"
    kind = field.kind
    if isinstance(kind, Enum):
        return f": {draw(st.sampled_from(sorted(kind.numbers)))}"
    if isinstance(kind, type):
        return f" {draw(messages(kind, depth + 1))}" if depth < 3 else " { }"
    if kind == "bool":
        return f": {draw(st.sampled_from(('true', 'false')))}"
    if kind == "string":
        return f': "{draw(st.sampled_from(_TEXTS))}"'
    if kind in ("float", "double"):
        return f": {draw(st.sampled_from((*_REAL, *_REAL, 'nan', 'inf', '-inf')))}"
    return f": {draw(st.sampled_from(_SMALL * 6 + _WHOLE))}"


@st.composite
def weights(draw: Any) -> bytes:
    """Draw a .caffemodel for layer "l" with a few blobs of unusual shapes and values."""
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        dims = draw(st.lists(st.sampled_from((1, 2, 3, 4, 8, 12, 0)), max_size=4))
        count = 1
        for d in dims:
            count *= d
        value = draw(st.sampled_from((0.0, 1.0, -1.0, 1e30, float("nan"), float("inf"))))
        if draw(st.integers(0, 19)) == 0:
            parts.append(
                message(7, shape(*dims, draw(st.sampled_from((2, -1, 2**40)))), floats(5, [value] * count))
            )
        else:
            parts.append(blob(dims, [value] * count))
    return layer("l", *parts, type_="")
