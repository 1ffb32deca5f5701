"""Measure the cost of a host call between two parts of a network, besides the layer's own time.

spec: folder, engine, threads.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

import anylayer
from benchmarks.prototxt import Prototxt
from benchmarks.runners import Loaded

SHAPE = (1, 16)


class OnHost:
    """Add one. No engine can run this layer, because it looks a value up in a dict."""

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def getMemoryShapes(self, inputs: Any) -> Any:
        return [inputs[0]]

    def forward(self, inputs: Any) -> Any:
        x = inputs[0]
        return [x + {True: 1}[bool(x.item(0) < 1e30)]]


def load(spec: dict[str, Any]) -> Loaded:
    """Offer three calls: a network of ReLU, the layer, ReLU; a network of ReLU, ReLU; the
    layer's forward alone.
    """
    layer, x = OnHost({}, []), np.ones(SHAPE, np.float32)
    models = {}
    for name, kinds in {"with": ("ReLU", "OnHost", "ReLU"), "without": ("ReLU", "ReLU")}.items():
        path = Path(spec["folder"]) / f"{name}.prototxt"
        path.write_text(_text(kinds))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            net = anylayer.read(path, layers=[("OnHost", OnHost)])
            models[name] = net.compile(spec["engine"], threads=spec["threads"])
    inputs = {"x": x}
    return Loaded(
        {
            "with": lambda: models["with"](inputs),
            "without": lambda: models["without"](inputs),
            "forward": lambda: layer.forward([x]),
        },
        lambda name: dict(models[name](inputs)),
        {"host_calls": len(models["with"].host_calls)},
    )


def _text(kinds: tuple[str, ...]) -> str:
    net = Prototxt("host_call")
    x = net.input("x", SHAPE)
    for number, kind in enumerate(kinds):
        x = net.layer(f"l{number}", kind, x)
    return net.text()
