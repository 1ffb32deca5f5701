"""The part of the generated module that does not depend on the network. It needs NumPy and cv2 only.

The generator writes it below the classes. Lines that end in `# GENERATED` are replaced.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

cv2: Any = None  # GENERATED: import cv2


@dataclass(frozen=True)
class _Entry:
    """A layer: its type, its class, and the params of the network's nodes.

    writes: whether the class writes to its inputs. weights: whether all of the nodes have weights.
    """

    type: str
    cls: Callable[..., Any]
    params: Sequence[dict[str, Any]]
    writes: bool
    weights: bool


_LAYERS: list[_Entry] = []  # GENERATED: the table
_OPENCV5 = int(cv2.__version__.split(".")[0]) >= 5
_registered: dict[str, Any] = vars(cv2).setdefault("_numpy_layers", {})  # outlives a reload of this module
_kept: list[Any] = vars(cv2).setdefault("_numpy_layers_kept", [])  # OpenCV itself does not keep them alive
_failures: list[BaseException] = []


class LayerFailed(RuntimeError):
    """The error of a layer that raised an exception, or that OpenCV cannot run. `__cause__` is the exception."""


def register(domain: str = "") -> None:
    """Register the layers in cv2, once: OpenCV ends the process where a type is registered twice.

    domain: the domain of the nodes in an ONNX file. OpenCV writes it before the type; an engine of OpenCV 5 leaves
    it out, so there the type alone is registered too.
    """
    for entry in _LAYERS:
        named = [f"{domain}.{entry.type}"] if domain else []
        for name in [*named, entry.type] if _OPENCV5 or not domain else named:
            if name not in _registered or _registered[name].args[0] is not entry:
                if name in _registered:
                    cv2.dnn_unregisterLayer(name)
                layer_class = partial(_Guarded, entry)
                _kept.append(layer_class)
                cv2.dnn_registerLayer(name, layer_class)
                _registered[name] = layer_class


def unregister() -> None:
    """Remove the layers from cv2. Networks that were run already keep them."""
    for name in [name for name, made in _registered.items() if made.args[0] in _LAYERS]:
        cv2.dnn_unregisterLayer(name)
        del _registered[name]


def forward(net: Any, *arguments: Any) -> Any:
    """Return net.forward(*arguments). Raises LayerFailed where a layer fails.

    After an exception in a layer's forward, OpenCV itself would never return. Therefore a layer that fails returns
    NaN and prints the exception, and this function raises it. After a direct call of net.forward(), call check().
    """
    _failures.clear()
    try:
        result = net.forward(*arguments)
    except cv2.error:
        check()
        raise
    check()
    return result


def check() -> None:
    """Raise the first exception that a layer raised since the last call."""
    errors = [*_failures]
    _failures.clear()
    if errors:
        raise errors[0]


class _Guarded:
    """The class that cv2 creates for a layer. Its forward never raises, and returns the right shapes."""

    def __init__(self, entry: _Entry, params: dict[str, Any], blobs: Sequence[Any]) -> None:
        self._entry = entry
        self._shapes: tuple[tuple[int, ...], ...] | None = None
        self._declared: list[tuple[int, ...]] = []
        try:
            if entry.weights and not blobs:
                raise NotImplementedError(
                    "OpenCV 5 passes no weights to layers in Python. Use OpenCV 4, or read the network with "
                    "engine=cv2.dnn.ENGINE_CLASSIC"
                )
            self._layer = entry.cls(_exact(entry, params), tuple(np.array(b) for b in blobs))
        except BaseException as error:
            raise self._failed(error) from error

    def getMemoryShapes(self, inputs: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the shapes of the outputs."""
        try:
            self._see(tuple(tuple(map(int, shape)) for shape in inputs))
        except BaseException as error:
            raise self._failed(error) from error
        return [list(shape) for shape in self._declared]

    def forward(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs, or NaN where the layer fails."""
        shapes = tuple(tuple(x.shape) for x in inputs)
        try:
            if shapes != self._shapes:
                self._see(shapes)
            if _OPENCV5:
                _need_shapes_of_opencv5(shapes, self._declared)
            return self._outputs([self._given(x) for x in inputs])
        except BaseException as error:
            self._failed(error)
        output_shapes = [shapes[0]] * len(shapes) if _OPENCV5 else self._declared
        return [cv2.Mat(np.full(shape, np.nan, np.float32), wrap_channels=False) for shape in output_shapes]

    def _failed(self, error: BaseException) -> LayerFailed:
        """Print an exception, of which OpenCV shows nothing, and keep it for `check`."""
        failed = LayerFailed(f"layer of type {self._entry.type!a}: {type(error).__name__}: {error}")
        failed.__cause__ = error
        traceback.print_exception(failed, file=sys.stderr)
        _failures.append(failed)
        return failed

    def _given(self, x: Any) -> Any:
        """Return an input such that the class cannot overwrite OpenCV's memory: a read-only view or a copy."""
        if self._entry.writes:
            return x.copy()
        view = x.view()
        view.flags.writeable = False
        return view

    def _see(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Set the shapes of the outputs for these shapes of the inputs."""
        shapes_of = getattr(self._layer, "getMemoryShapes", None)
        if shapes_of is None:
            results = self._results([np.zeros(shape, np.float32) for shape in shapes])
            self._declared = [tuple(np.shape(y)) for y in results]
        else:
            self._declared = [tuple(map(int, shape)) for shape in shapes_of([list(shape) for shape in shapes])]
        self._shapes = shapes

    def _results(self, inputs: list[Any]) -> list[Any]:
        """Call the class's forward."""
        typed = getattr(self._layer, "takes_arrays", False)
        results = self._layer.forward(*inputs) if typed else self._layer.forward(inputs)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    def _outputs(self, inputs: list[Any]) -> list[Any]:
        """Return the outputs in the form that OpenCV expects."""
        arrays = [np.ascontiguousarray(y, np.float32).reshape(np.shape(y)) for y in self._results(inputs)]
        shapes = [y.shape for y in arrays]
        if shapes != self._declared:
            raise ValueError(f"forward returns the shapes {shapes}, getMemoryShapes declares {self._declared}")
        # Without wrap_channels=False, OpenCV takes the last of three axes for channels.
        return [cv2.Mat(y, wrap_channels=False) if y.ndim == 3 else y for y in arrays]


def _need_shapes_of_opencv5(inputs: Sequence[tuple[int, ...]], outputs: Sequence[tuple[int, ...]]) -> None:
    """Raise NotImplementedError for what OpenCV 5 cannot do: it does not ask a layer in Python for its shapes."""
    if list(outputs) != [inputs[0]] * len(inputs):
        raise NotImplementedError(
            "OpenCV 5 takes only layers in Python with as many outputs as inputs, all of the shape of input 0; "
            f"this one has inputs {list(inputs)} and outputs {list(outputs)}. Use OpenCV 4"
        )


def _exact(entry: _Entry, params: dict[str, Any]) -> dict[str, Any]:
    """Return the params of a node with the signs, lists and types that OpenCV 4 loses.

    For a message that it does not know, OpenCV passes each field as text, without its minus sign, and only one
    value of a list. Such params are replaced by those of the network's node from which OpenCV can have derived
    them.
    """
    if "param_str" in params:
        return {**params, **json.loads(params["param_str"])}
    texts = {name: v for name, v in params.items() if isinstance(v, str)}
    if _OPENCV5 or "has_dynamic_shapes" in params or not any(map(_is_mangled, texts.values())):
        return params
    fitting = [known for known in entry.params if _stands_for(params, known)]
    if any(known != fitting[0] for known in fitting):
        raise ValueError(
            "OpenCV passes these params without their signs and lists, so they fit several nodes: "
            f"{fitting}. Give python_param with a param_str"
        )
    if not fitting:
        raise ValueError(
            "OpenCV gives these params as text, which loses signs and lists, and no node of the generated network "
            f"has them: {texts}. Generate the module for this network, or give python_param with a param_str"
        )
    return fitting[0]


def _is_mangled(text: str) -> bool:
    """Return whether a text may be a number or a truth value that lost its type."""
    try:
        float(text)
    except ValueError:
        return text in ("true", "false")
    return True


def _stands_for(params: dict[str, Any], known: dict[str, Any]) -> bool:
    """Return whether OpenCV can have derived `params` from `known`."""
    fields = {name for entry in _LAYERS for one in entry.params for name in one}
    return all(name in params and _same(params[name], value) for name, value in known.items()) and all(
        name in known for name in params if name in fields
    )


def _same(given: Any, value: Any) -> bool:
    """Return whether OpenCV can have derived the value `given` from `value`."""
    values = value if isinstance(value, tuple) else (value,)
    if not isinstance(given, str):
        return bool(np.array_equal(given, value if len(values) > 1 else values[0]))
    return any(_text_of(given, one) for one in values)


def _text_of(given: str, value: Any) -> bool:
    """Return whether OpenCV can have derived the text `given` from one value."""
    if isinstance(value, str):
        return given == value
    if given in ("true", "false"):
        return bool(value == (given == "true"))
    try:
        return bool(np.float32(given) == np.float32(abs(value)))
    except ValueError:
        return False
