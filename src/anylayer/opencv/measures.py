"""Shapes, operations and memory of a network's layers, and its graph as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from anylayer import api
from anylayer.errors import InputError, given
from anylayer.network import Network, TensorType
from anylayer.opencv.table import FIRST, LayerTable

Shapes = Mapping[str, Sequence[int]]
Row = tuple[list[tuple[int, ...]], list[tuple[int, ...]]]


def shapes_of(net: api.Net, table: LayerTable, shapes: Shapes, layouts: Mapping[str, str]) -> list[Row]:
    """Return (input shapes, output shapes) of each layer, as OpenCV has them: NCHW."""
    types: dict[str, TensorType | None] = {k: TensorType.of(shape) for k, shape in shapes.items()}
    for node in net.inspect(shapes).nodes:
        types.update(node.inputs)
        types.update(node.outputs)

    def of(names: Sequence[str]) -> list[tuple[int, ...]]:
        result = []
        for name in names:
            kind = given(types.get(name), f"the shape of '{name}' is not known for these inputs", InputError)
            shape = tuple(d if isinstance(d, int) else int(d.maximum) for d in kind.shape)
            order = FIRST.get(len(shape)) if layouts.get(name) == "NHWC" else None
            result.append(tuple(shape[i] for i in order) if order else shape)
        return result

    rows, last = [], {entry.number for entry in table.outputs}
    for entry in table.entries:
        inputs = entry.node.inputs if entry.node is not None else entry.values
        rows.append((of([name for name in inputs if name]), of(entry.shaped_values(entry.number in last))))
    return rows


def dot(network: Network, table: LayerTable) -> str:
    """Return a graph in DOT: a box for each layer with its name and type, an arrow for each value that is read."""
    producers = {
        value: entry.name for entry in table.entries for value in entry.values if entry.node or not entry.number
    }
    lines = [
        f"{_dot_string(e.name)} [label={_dot_string(f'{e.name}: {e.type}')} shape=box]" for e in table.entries[1:]
    ]
    for entry in table.entries[1:]:
        inputs = entry.node.inputs if entry.node is not None else entry.values
        lines += [f"{_dot_string(producers[v])} -> {_dot_string(entry.name)}" for v in inputs if v in producers]
    return (
        "\n".join([f"digraph {_dot_string(network.name or 'net')} {{", *(f"\t{line}" for line in lines), "}"])
        + "\n"
    )


def _dot_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
