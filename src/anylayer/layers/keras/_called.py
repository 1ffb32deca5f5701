"""Function calls as layers: what a functional model records where its code calls a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import LayerError, nearest
from anylayer.layer import layer, need
from anylayer.layers.keras._base import KerasLayer, placed
from anylayer.network import Node

Function = Callable[..., Any]


class Called(KerasLayer):
    """A function call. Its arguments are those of the call, then those of the configuration."""

    function: ClassVar[Function]
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Arguments that change no number."""

    given: dict[str, Any]

    def prepare(self, node: Node, dialect: str | None) -> None:
        config = {**node.params.get("config", {})}
        call = node.params.get("call", {"args": [{"input": i} for i in range(len(node.inputs))], "kwargs": {}})
        bare = Node(node.name, node.type, node.inputs, node.outputs, {}, node.blobs)
        super().prepare(bare, dialect)
        self.call = call
        skipped = {"name", "trainable", "dtype", "function", *self.ignored}
        known = inspect.signature(type(self).function).parameters
        if "dtype" in known:
            skipped.discard("dtype")
        self.given = {k: v for k, v in {**config, **call["kwargs"]}.items() if k not in skipped and v is not None}
        if not any(p.kind == p.VAR_KEYWORD for p in known.values()):
            for name in self.given:
                if name not in known:
                    raise LayerError(f"has no argument '{name}'{nearest(name, known)}")

    def forward(self, *inputs: Any) -> Any:
        """The function's value; float64 becomes float32."""
        args, kwargs = placed(self.call["args"], inputs), placed(self.given, inputs)
        try:
            result = type(self).function(*args, **kwargs)
        except (TypeError, AttributeError) as error:
            raise LayerError(f"does not take these arguments ({error})") from error
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        need(len(results) >= self.outputs, f"gives {len(results)} outputs, the node has {self.outputs}")
        for result in results:
            kind = getattr(np.asarray(result) if np.isscalar(result) else result, "dtype", np.dtype(object)).kind
            need(kind in "fiub", f"gives a {type(result).__name__} that is not a tensor of numbers")
        return [_narrow(np.asarray(r) if np.isscalar(r) else r) for r in results][: self.outputs]


def _narrow(x: Any) -> Any:
    return x.astype(np.float32) if x.dtype == np.float64 else x


def define(prefix: str, functions: Mapping[str, Function], module: str, ignored: frozenset[str]) -> None:
    """Register each function as the layer type `prefix`.`name`."""
    for name, function in functions.items():
        what = (
            (function.__doc__ or "").strip().split("\n")[0] if function.__module__.startswith("anylayer") else ""
        )
        members = {
            "__doc__": what or f"The function {name} of arrays.",
            "__module__": module,
            "function": staticmethod(function),
            "ignored": ignored,
        }
        layer(f"{prefix}.{name}")(type(name.replace(".", "_"), (Called,), members))
