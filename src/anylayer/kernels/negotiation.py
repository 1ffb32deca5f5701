"""Agree with a native layer on a configuration: element types, orders of axes, shared memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import LayerError
from anylayer.kernels import abi
from anylayer.kernels.params import Arena
from anylayer.layer.order import ORDERS
from anylayer.network import ABSENT, Node, TensorType

_ROUNDS = 4
"""The number of times that an implementation may change the configuration that it is offered."""
_CONFIGURATIONS = 256
"""The number of configurations that a layer may have at most."""
_FLOATS = ("float16", "float32", "float64")
_NUMBERS = {"NCHW": abi.NCHW, "NHWC": abi.NHWC}


@dataclass(slots=True)
class Edge:
    """The requirements of a configuration for an input or output, as numbers of the binary interface."""

    dtype: int
    layout: int
    in_place: int = -1


@dataclass(slots=True)
class Configuration:
    """One way in which an implementation can run. `implementation` is its index, `name` may be empty."""

    implementation: int
    name: str
    inputs: list[Edge]
    outputs: list[Edge]
    dynamic_batch: bool = False
    reentrant: bool = False
    elementwise: bool = False

    def __str__(self) -> str:
        """Return a short description: "implementation 'scalar', float32, NHWC, in place"."""
        parts = [f"implementation '{self.name}'" if self.name else ""]
        edges = [*self.inputs, *self.outputs]
        parts.append(" or ".join(dict.fromkeys(_dtype_text(e.dtype) for e in edges)))
        parts.append(" and ".join(dict.fromkeys(abi.LAYOUTS.get(e.layout, "?") for e in edges)))
        parts += ["in place"] if any(e.in_place >= 0 for e in self.outputs) else []
        parts += ["any batch size"] if self.dynamic_batch else []
        parts += ["reentrant"] if self.reentrant else []
        parts += ["elementwise"] if self.elementwise else []
        return ", ".join(p for p in parts if p)


def _dtype_text(number: int) -> str:
    return abi.DTYPES[number].name if number in abi.DTYPES else "any type"


@dataclass(slots=True)
class Offer:
    """The C structure of a configuration, with the structures of the inputs and outputs that it points to."""

    inputs: int
    outputs: int
    arena: Arena = field(default_factory=Arena)
    edges: tuple[list[Any], list[Any]] = field(init=False)
    struct: Any = field(init=False)

    def __post_init__(self) -> None:
        inputs, outputs = ([abi.CEdge(0, 0, -1) for _ in range(n)] for n in (self.inputs, self.outputs))
        self.edges = inputs, outputs
        at = [self.arena.structures(edges) for edges in self.edges]
        self.struct = abi.CConfiguration(0, 0, self.inputs, self.outputs, 0, *at, b"")

    @property
    def at(self) -> int:
        return ctypes.addressof(self.struct)

    def read(self) -> Configuration:
        """Return the configuration that the structure has now."""
        inputs, outputs = ([Edge(e.dtype, e.layout, e.in_place) for e in edges] for edges in self.edges)
        flags = self.struct.flags
        name = self.struct.name.decode("utf-8", "replace")
        stated = (bool(flags & flag) for flag in (abi.DYNAMIC_BATCH, abi.REENTRANT, abi.ELEMENTWISE))
        return Configuration(self.struct.implementation, name, inputs, outputs, *stated)


def plain(inputs: Sequence[TensorType], outputs: int) -> Configuration:
    """Return the configuration of a layer that lists none: floats as float32, channels first."""
    single = abi.NUMBERS[np.dtype(np.float32)]
    edges = [Edge(single if t.dtype.kind == "f" else abi.ANY, abi.NCHW) for t in inputs]
    return Configuration(0, "", edges, [Edge(single, abi.NCHW) for _ in range(outputs)])


class Negotiation:
    """The search for a configuration that the layer accepts and that fits the network's values."""

    def __init__(self, type_: Any, handle: int, node: Node, types: Sequence[TensorType]) -> None:
        self._type, self._handle, self._node, self._types = type_, handle, node, types
        self._messages = abi.Messages()

    def agreed(self) -> Configuration:
        """Return the first configuration, those with the fewest conversions first, that the layer accepts.

        Raises LayerError with the reason of each where there is none.
        """
        offers = self._offers()
        reasons: list[str] = []
        fitting: list[tuple[int, int, Offer]] = []
        for i, offer in enumerate(offers):
            configuration = offer.read()
            reason = self._obstacle(configuration)
            if reason:
                reasons.append(f"{configuration}: {reason}")
            else:
                fitting.append((self._conversions(configuration), i, offer))
        for _, _, offer in sorted(fitting, key=lambda f: f[:2]):
            shown = str(offer.read())
            reason = self._offer_until_accepted(offer)
            if not reason:
                return offer.read()
            reasons.append(f"{shown}: {reason}")
        raise LayerError(f"no configuration fits: {'; '.join(reasons) or 'the layer has none'}")

    def _offers(self) -> list[Offer]:
        """Return the layer's configurations."""
        configuration = plain(self._types, len(self._node.outputs))
        if not self._type.configuration:
            return [self._offer_of(configuration)]
        offers: list[Offer] = []
        while True:
            offer = Offer(len(self._types), len(self._node.outputs))
            status = self._type.configuration(self._handle, len(offers), offer.at, self._messages.at)
            if status == abi.NOT_FOUND:
                return offers
            if status != abi.OK:
                raise LayerError(self._messages.take() or f"its list of configurations ends with status {status}")
            offers.append(offer)
            if len(offers) > _CONFIGURATIONS:
                raise LayerError(f"the layer has more than {_CONFIGURATIONS} configurations")

    def _offer_of(self, made: Configuration) -> Offer:
        offer = Offer(len(made.inputs), len(made.outputs))
        for target, source in zip([*offer.edges[0], *offer.edges[1]], [*made.inputs, *made.outputs]):
            target.dtype, target.layout, target.in_place = source.dtype, source.layout, source.in_place
        return offer

    def _offer_until_accepted(self, offer: Offer) -> str:
        """Offer a configuration, with the layer's changes, until it is accepted. Return "" or the refusal."""
        if not self._type.select:
            return ""
        for _ in range(_ROUNDS):
            status = self._type.select(self._handle, offer.at, self._messages.at)
            text = self._messages.take()
            if status == abi.OK:
                return self._obstacle(offer.read())
            if status != abi.NOT_IMPLEMENTED:
                return text or f"refused with status {status}"
            reason = self._obstacle(offer.read())
            if reason:
                return f"changed to {offer.read()}: {reason}"
        return f"changed {_ROUNDS} times, and not accepted"

    def _obstacle(self, found: Configuration) -> str:
        """Return why the network's values do not fit a configuration, or ""."""
        for what, edges in (("input", found.inputs), ("output", found.outputs)):
            for i, edge in enumerate(edges):
                reason = self._edge_obstacle(edge, what, i)
                if reason:
                    return f"{what} {i} {reason}"
        return ""

    def _edge_obstacle(self, edge: Edge, what: str, i: int) -> str:
        if edge.layout == abi.BLOCKED:
            return "asks for a blocked layout, which anylayer does not have: engines pass plain arrays"
        if edge.layout not in abi.LAYOUTS:
            return f"asks for layout {edge.layout}, which this version does not have"
        if edge.dtype != abi.ANY and edge.dtype not in abi.DTYPES:
            return f"asks for element type {edge.dtype}, which this version does not have"
        if what == "output":
            if not -1 <= edge.in_place < len(self._types):
                return f"shares the memory of input {edge.in_place}, there are {len(self._types)} inputs"
            return ""
        if edge.in_place != -1:
            return "shares the memory of an output, which only an output may state"
        kind = self._types[i]
        if kind != ABSENT and edge.dtype not in (abi.ANY, abi.NUMBERS.get(kind.dtype)):
            wanted = abi.DTYPES[edge.dtype]
            if not (wanted.name in _FLOATS and kind.dtype.name in _FLOATS):
                return f"asks for {wanted}, the network has {kind.dtype}"
        if self._node.layout == "mixed" and edge.layout != abi.ANY and len(kind.shape) == 4:
            return "asks for an order of axes, and the network has channels-first and channels-last layers"
        return ""

    def _conversions(self, found: Configuration) -> int:
        """Return how many inputs and outputs have to be cast or transposed."""
        count = sum(is_turned(self._node, e, 4) for e in found.outputs)
        for edge, kind in zip(found.inputs, self._types):
            count += is_turned(self._node, edge, len(kind.shape))
            count += edge.dtype not in (abi.ANY, abi.NUMBERS.get(kind.dtype)) and kind != ABSENT
        floats = {abi.NUMBERS[t.dtype] for t in self._types if t.dtype.name in _FLOATS}
        count += sum(_is_float(e.dtype) and bool(floats) and e.dtype not in floats for e in found.outputs)
        return count


def _is_float(number: int) -> bool:
    return number in abi.DTYPES and abi.DTYPES[number].kind == "f"


def is_turned(node: Node, edge: Edge, rank: int) -> bool:
    """Return whether a value of this rank has another order of axes in the file than configured."""
    if rank != 4 or node.layout not in ORDERS or edge.layout == abi.ANY:
        return False
    return _NUMBERS[node.layout] != edge.layout
