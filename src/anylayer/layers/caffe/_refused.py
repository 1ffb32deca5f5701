"""Layers that are known by name and refused, since no source states exactly what they compute."""

from __future__ import annotations

from typing import ClassVar

from anylayer.layer import Layer, need
from anylayer.network import Node


class RefusedLayer(Layer):
    """A layer that is refused. `reason` ends the message about it."""

    reason: ClassVar[str] = ""

    def prepare(self, node: Node, dialect: str | None) -> None:
        need(False, f"{self.reason}. Define the layer in a layers file")
