"""NetParameter: the result of NetSpec.to_proto. It can be changed and saved, and prints as in protobuf."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anylayer.caffe.alias import installed_dialect
from anylayer.writers.caffe.caffemodel import prototxt, write_caffemodel
from anylayer.writers.caffe.dialects import dialect_of
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet
from anylayer.writers.caffe.proto import proto_text


@dataclass(slots=True)
class LayerParameter:
    """A layer. `fields` are its other fields: parameter messages, and fields of LayerParameter."""

    name: str = ""
    type: str = ""
    bottom: list[str] = field(default_factory=list)
    top: list[str] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = prototxt(CaffeNet(layers=[self.as_layer()])).splitlines()[1:-1]
        return "".join(f"{line[2:]}\n" for line in lines)

    def as_layer(self) -> CaffeLayer:
        """Return the layer as the Caffe writer takes it."""
        return CaffeLayer(self.name, self.type, list(self.bottom), list(self.top), dict(self.fields))


@dataclass(slots=True)
class NetParameter:
    """A network without weights. `str()` is its prototxt."""

    name: str = ""
    layer: list[LayerParameter] = field(default_factory=list)
    dialect: str | None = None

    def __str__(self) -> str:
        return prototxt(self._net())

    def _net(self) -> CaffeNet:
        return CaffeNet(
            self.name, [x.as_layer() for x in self.layer], dialect=dialect_of(self.dialect or installed_dialect())
        )

    def SerializeToString(self) -> bytes:
        """Return the network in protobuf's binary form."""
        out = io.BytesIO()
        write_caffemodel(self._net(), out)
        return out.getvalue()

    def proto(self) -> str:
        """Return the text of a caffe.proto that declares all layers of the network."""
        return proto_text(self._net())

    def save(self, path: str | Path) -> Path:
        """Write the prototxt, and return its path, for anylayer.read."""
        path = Path(path)
        path.write_text(str(self), encoding="utf-8")
        return path
