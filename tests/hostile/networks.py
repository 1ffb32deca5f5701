"""Prototxts of networks, built from layers."""

from __future__ import annotations

from collections.abc import Sequence


def input_(*dims: int, name: str = "data") -> str:
    """Return an Input layer; `name` is its top."""
    shape = " ".join(f"dim: {d}" for d in dims)
    return f'layer {{ name: "in_{name}" type: "Input" top: "{name}" input_param {{ shape {{ {shape} }} }} }}\n'


def layer(
    type_: str, params: str = "", bottoms: Sequence[str] = ("data",), tops: Sequence[str] = ("y",), name: str = "l"
) -> str:
    """Return a layer."""
    wires = [f'bottom: "{b}"' for b in bottoms] + [f'top: "{t}"' for t in tops]
    return f'layer {{ name: "{name}" type: "{type_}" {" ".join(wires)} {params} }}\n'


def chain(type_: str, count: int, params: str = "", first: str = "data", twice: bool = False) -> str:
    """Return a chain of layers. With `twice`, each layer gets its input two times."""
    text, last = "", first
    for i in range(count):
        text += layer(type_, params, [last] * (1 + twice), [f"y{i}"], f"l{i}")
        last = f"y{i}"
    return text


def data(*dims: int, top: str = "data") -> str:
    """Return a DummyData layer of ones, which is a constant."""
    shape = " ".join(f"dim: {d}" for d in dims)
    filler = 'data_filler { type: "constant" value: 1 }'
    params = f"dummy_data_param {{ shape {{ {shape} }} {filler} }}"
    return f'layer {{ name: "d" type: "DummyData" top: "{top}" {params} }}\n'


SMALL = input_(1, 3, 8, 8)
FILLED = 'weight_filler { type: "constant" value: 1 }'
