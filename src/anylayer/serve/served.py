"""A network that answers requests of the Open Inference Protocol. It knows neither HTTP nor Ray."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.api import Net
from anylayer.compile.inputs import input_types
from anylayer.errors import AnyLayerError, InputError, need
from anylayer.libraries.pillow import MAX_PIXELS, pixels
from anylayer.network import Array, TensorType
from anylayer.runtime.batches import Batches
from anylayer.serve.protocol import Request, metadata, ordered_inputs
from anylayer.serve.statistics import Statistics

Decode = Callable[[bytes], Array]
"""A function from an encoded picture to the input that it makes: (1, C, H, W), or (1, H, W, C)."""


@dataclass(frozen=True)
class Settings:
    """How a network is served.

    name: the name of the model. shapes: the inputs' shapes, as in compile. free: for each input, the axes whose
    sizes a request may choose. batch: the largest number of samples that run together. decode: maps inputs that
    are pictures to the functions that decode them. largest: the limit on the size of a request in bytes.
    """

    name: str
    engine: str = "auto"
    threads: int | None = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    free: Mapping[str, frozenset[int]] = field(default_factory=dict)
    batch: int = 8
    decode: Mapping[str, Decode] = field(default_factory=dict)
    largest: int = 64 << 20


class Served:
    """A compiled network with its settings. One thread may call `run` at a time, any thread the other methods.
    `workers` are threads that read requests and decode pictures."""

    def __init__(self, net: Net, settings: Settings) -> None:
        self.settings = settings
        self.workers = ThreadPoolExecutor(2)
        types = known_types(net, settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about host calls, which `anylayer inspect` explains
            model = net.compile(settings.engine, {n: t.shape for n, t in types.items()}, settings.threads)
            self.batches = Batches(model, types, settings.batch)
        self.statistics = Statistics(self.batches.runs, self.batches.nanoseconds)
        self._types = {name: kind for name, kind in types.items() if name in model.inputs}
        first = [frozenset((0,)) if self.batches.size else frozenset()]
        self._sizes = {
            name: [
                None if i in first[0] | settings.free.get(name, frozenset()) else d for i, d in enumerate(t.shape)
            ]
            for name, t in self._types.items()
        }
        outputs = {name: kind for name, kind in model.outputs.items() if kind is not None}
        self.metadata = metadata(settings.name, model.engine, self._types, outputs, bool(self.batches.size))
        for tensor in self.metadata["inputs"]:
            tensor["shape"] = [-1 if d is None else d for d in self._sizes[tensor["name"]]]
        if any(settings.free.values()):
            for tensor in self.metadata["outputs"]:
                tensor["shape"] = [-1] * len(tensor["shape"])

    def inputs(self, request: Request) -> dict[str, Array]:
        """Return the arrays of a request, with its pictures decoded. Raises InputError for what does not fit."""
        budget = MAX_PIXELS
        for name, pictures in request.pictures.items():
            decode = self.settings.decode.get(name)
            if decode is None:
                raise InputError(f"input '{name}' is not an image, so it cannot be a picture (BYTES)")
            need(pictures, f"input '{name}' has an empty list of pictures", InputError)
            input_pixels = math.prod(d for d in self._types[name].shape[1:] if isinstance(d, int)) // 3
            for picture in pictures:
                budget -= max(pixels(picture), input_pixels)
                need(budget >= 0, f"the pictures of a request have at most {MAX_PIXELS} pixels", InputError)
            decoded = [decode(picture) for picture in pictures]
            sizes = sorted({tuple(array.shape[1:]) for array in decoded})
            rule = f"the pictures of input '{name}' have different sizes: {sizes[0]} and {sizes[-1]}"
            need(len(sizes) == 1, f"{rule}; send each in a request of its own", InputError)
            request.arrays[name] = np.concatenate(decoded)
        return ordered_inputs(request, self._types, self._sizes)

    def picture(self, data: bytes) -> Request:
        """Return the request for a picture as the body: it is the first input, and the answer is JSON."""
        return Request({}, {next(iter(self._types)): [data]})

    def run(self, requests: Sequence[Mapping[str, Array]]) -> list[tuple[dict[str, Array] | AnyLayerError, int]]:
        """Return the outputs of each request, or the error that it raises, and the nanoseconds that all took."""
        start = time.perf_counter_ns()
        results = self.batches(requests)
        return [(result, time.perf_counter_ns() - start) for result in results]

    def describe(self) -> dict[str, Any]:
        """Return what was measured: the engine, the number of samples per batch and why it is not larger."""
        batches = self.batches
        return {
            "engine": batches.model.engine,
            "batch": batches.size,
            "why": batches.why,
            "seconds": batches.seconds,
        }


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def need_servable(networks: Sequence[tuple[Net, Settings]]) -> None:
    """Raise InputError for a name that a URL cannot have or that occurs twice, and what `known_types` raises."""
    names = [settings.name for _, settings in networks]
    for name in names:
        need(
            _NAME.fullmatch(name) and names.count(name) == 1,
            f"the name '{name}' of a model must be unique, and have letters, digits, '_', '-' and '.' only",
            InputError,
        )
    for net, settings in networks:
        known_types(net, settings)


def known_types(net: Net, settings: Settings) -> dict[str, TensorType]:
    """Return the types of a network's inputs. Raises InputError where the file does not give one, and
    UnknownLayers where a layer type has no definition."""
    types = input_types(net.network, settings.shapes)
    net.require_known()
    known_inputs: dict[str, TensorType] = {}
    for name, kind in types.items():
        if kind is None:
            raise InputError(
                f"{net.network.source}: the shape of input '{name}' is not in the file; give its shape"
            )
        known_inputs[name] = kind
    need(known_inputs, f"{net.network.source}: the network has no inputs", InputError)
    return known_inputs
