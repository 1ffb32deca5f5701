"""Ir: builds an IR of version 2 to 7 layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from anylayer.network import Array


@dataclass
class Ir:
    """An IR under construction. A value is named by its layer, or (layer, output index) if there are several."""

    version: int = 2
    half: bool = False
    data_tag: str = "data"
    layers: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    extra: str = ""
    weights: bytearray = field(default_factory=bytearray)
    ports: dict[Any, tuple[int, int, tuple[int, ...]]] = field(default_factory=dict)

    @property
    def precision(self) -> str:
        return "FP16" if self.half else "FP32"

    def input(self, name: str, *shape: int) -> None:
        """Add an input."""
        self.layer(name, "Input", [], [shape])

    def layer(
        self,
        name: str,
        type_: str,
        inputs: Sequence[Any],
        outputs: Sequence[Sequence[int]],
        data: Mapping[str, Any] | None = None,
        blobs: Mapping[str, Array] | None = None,
        tag: str = "",
    ) -> None:
        """Add a layer with the given output shapes.

        Like the Model Optimizer, number its blobs before its outputs.
        """
        number = len(self.layers)
        text = f'<layer id="{number}" name={quoteattr(name)} precision="{self.precision}" type="{type_}">'
        if data:
            written = " ".join(f"{key}={quoteattr(str(value))}" for key, value in data.items())
            text += f"<{tag or self.data_tag} {written}/>"
        if inputs:
            text += "<input>"
            for i, source in enumerate(inputs):
                layer, port, shape = self.ports[source]
                text += _port(i, shape)
                self.edges.append(
                    f'<edge from-layer="{layer}" from-port="{port}" to-layer="{number}" to-port="{i}"/>'
                )
            text += "</input>"
        first = len(inputs) + len(blobs or {})
        if outputs:
            text += "<output>"
            for i, shape in enumerate(outputs):
                text += _port(first + i, shape)
                self.ports[name if len(outputs) == 1 else (name, i)] = (number, first + i, tuple(shape))
            text += "</output>"
        if blobs:
            text += "<blobs>" + "".join(self.blob(key, array) for key, array in blobs.items()) + "</blobs>"
        self.layers.append(text + "</layer>")

    def blob(self, name: str, array: Array) -> str:
        """Append a blob to the weights and return its XML element."""
        data = np.ascontiguousarray(array, np.float16 if self.half else np.float32).tobytes()
        offset = len(self.weights)
        self.weights += data
        return f'<{name} offset="{offset}" size="{len(data)}"/>'

    def shape(self, source: Any) -> tuple[int, ...]:
        """Return the shape of a value."""
        return self.ports[source][2]

    def text(self) -> str:
        """Return the text of the XML file."""
        layers, edges = "\n".join(self.layers), "\n".join(self.edges)
        return (
            f'<?xml version="1.0" ?>\n<net batch="1" name="net" version="{self.version}">\n<layers>\n{layers}\n'
            f"</layers>\n<edges>\n{edges}\n</edges>\n{self.extra}</net>\n"
        )

    def save(self, folder: Path, name: str = "net") -> Path:
        """Write both files. Return the path of the XML file."""
        path = folder / f"{name}.xml"
        path.write_text(self.text())
        path.with_suffix(".bin").write_bytes(bytes(self.weights))
        return path


def _port(number: int, shape: Sequence[int]) -> str:
    return f'<port id="{number}">' + "".join(f"<dim>{d}</dim>" for d in shape) + "</port>"
