"""caffe.Layer: layers of type "Python", as pycaffe runs them (BVLC/caffe include/caffe/layers/python_layer.hpp).

A network finds the class by `python_param { module: ... layer: ... }` and imports the module, as pycaffe does.
Where `forward` can be traced, it becomes a part of the compiled network; otherwise it is called between two parts
of it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.caffe.alias import install
from anylayer.caffe.blob import Blob, Weight
from anylayer.caffe.net_parameter import LayerParameter
from anylayer.errors import LayerError, call_contained, given, need, plural
from anylayer.layer import Definition
from anylayer.layer.registry import origin_of
from anylayer.layer.state import copied
from anylayer.network import Array, Shape
from anylayer.tracing import call_user, is_traced


class Phase(int):
    """The phase of a layer, an int whose text is "TRAIN" or "TEST", as in py-faster-rcnn's Caffe."""

    __slots__ = ()

    def __str__(self) -> str:
        return "TEST" if self else "TRAIN"


class BlobVec(list[Weight]):
    """The weights of a layer."""

    def add_blob(self, *shape: int) -> None:
        """Append a weight of zeros."""
        self.append(Weight(np.zeros(shape, np.float32)))


class Layer:
    """The base class of layers in Python. A subclass has setup, reshape and forward, each with the bottoms and
    tops.

    `setup(bottom, top)` is called once, `reshape(bottom, top)` before each forward: it gives each top its shape by
    `top[0].reshape(*shape)`. `forward(bottom, top)` writes `top[0].data[...]`. `param_str` is the text of the
    layer in the network, `phase` is TRAIN or TEST, `blobs` are the layer's weights.
    """

    param_str: str = ""
    param_str_: str = ""
    phase = Phase(1)
    type: str = "Python"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Ignore the LayerParameter that a subclass passes on."""

    @functools.cached_property
    def blobs(self) -> BlobVec:
        """The layer's weights."""
        return BlobVec()

    def setup(self, bottom: Sequence[Blob], top: Sequence[Blob]) -> None:
        """Check the layer, once."""

    def reshape(self, bottom: Sequence[Blob], top: Sequence[Blob]) -> None:
        """Give the tops their shapes."""

    def forward(self, bottom: Sequence[Blob], top: Sequence[Blob]) -> None:
        """Compute the tops."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def backward(self, top: Sequence[Blob], propagate_down: Sequence[bool], bottom: Sequence[Blob]) -> None:
        """Do nothing: anylayer computes no gradients."""


def layer_class(params: Mapping[str, Any]) -> type[Layer]:
    """Return the class that python_param names. Its module is imported.

    Raises LayerError where there is no such module or class. An exception of the module itself is raised as it is.
    """
    module, name = str(params.get("module", "")), str(params.get("layer", ""))
    need(module and name, "python_param needs 'module' and 'layer'", LayerError)
    need(
        _is_module(module) and name.isidentifier(),
        f"python_param must name a module and a class, got module '{module}', layer '{name}'",
    )
    cls: type[Layer] = given(getattr(_module(module), name, None), f"module '{module}' has no class '{name}'")
    need(
        isinstance(cls, type) and issubclass(cls, Layer),
        f"{module}.{name} must be a subclass of caffe.Layer (import anylayer.caffe as caffe)",
    )
    return cls


def _module(name: str) -> Any:
    """Import a module. An `import caffe` inside it gets anylayer.caffe where Caffe is not installed."""
    if "caffe" not in sys.modules and importlib.util.find_spec("caffe") is None:
        install()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise LayerError(
            f"there is no module '{error.name}'. Add its folder to sys.path, or give the layer: "
            "layers=[(type, class)]"
        ) from None


def has_module(name: str) -> bool:
    """Return whether a module can be found on sys.path. The packages around it are imported."""
    try:
        return _is_module(name) and (name in sys.modules or importlib.util.find_spec(name) is not None)
    except (ImportError, ValueError):
        return False


def _is_module(name: str) -> bool:
    """Return whether a text is the name of a module, and not the path of a file."""
    return all(part.isidentifier() for part in name.split("."))


def make_layer(cls: type[Layer], params: Mapping[str, Any], phase: int, layer: LayerParameter) -> Layer:
    """Return an instance of a layer's class with the attributes that pycaffe sets."""
    instance = cls(layer)
    instance.param_str = instance.param_str_ = str(params.get("param_str", ""))
    instance.phase = Phase(phase)
    return instance


def take_weights(layer: Layer, arrays: Sequence[Array]) -> None:
    """Give a layer that is set up the weights of a file. Raises LayerError where its setup made others."""
    if not layer.blobs:
        layer.blobs.extend(Weight(array) for array in arrays)
        return
    need(
        len(arrays) in (0, len(layer.blobs)),
        f"the weights file has {plural(len(arrays), 'blob')}, and the layer's setup makes {len(layer.blobs)}",
    )
    for i, (weight, array) in enumerate(zip(layer.blobs, arrays)):
        need(
            array.size == weight.count,
            f"blob {i} has shape {array.shape} in the weights file, and {weight.shape} in the layer's setup",
        )
        weight.data[...] = array.reshape(weight.shape)


class Traceable:
    """A pycaffe layer in OpenCV's form: `forward(inputs)` returns a list of arrays.

    `shapes` are those of its tops after its setup, which has been called.
    """

    def __init__(self, layer: Layer, shapes: Sequence[Shape]) -> None:
        self.layer, self._shapes = layer, shapes

    def forward(self, inputs: Sequence[Array]) -> list[Array]:
        """Call the layer's reshape and forward on blobs of these inputs."""
        traced = next((x for x in inputs if is_traced(x)), None)
        bottom = [_TracedBottom(x) if is_traced(x) else Blob(x) for x in inputs]
        top = [_TracedTop(traced, shape) for shape in self._shapes]
        call_user(self.layer.reshape, bottom, top)
        call_user(self.layer.forward, bottom, top)
        return [blob.data for blob in top]


class _TracedBottom(Blob):
    """A bottom whose `diff` is a traced array, so that a layer can write gradients to it. They are ignored."""

    @property
    def diff(self) -> Array:
        if self._diff is None:
            self._diff = np.zeros_like(self._array, np.float32)
        return self._diff


class _TracedTop(Blob):
    """A top whose array is a traced one where an input is traced."""

    def __init__(self, like: Array | None, shape: Shape) -> None:
        super().__init__(np.zeros(shape, np.float32, like=like))

    def _resize(self, shape: tuple[int, ...]) -> None:
        self._array = np.zeros_like(self._array, np.float32, "C", shape=shape)


def traceable(layer: Layer, type_: str, shapes: Sequence[Shape]) -> Definition | None:
    """Return a definition that traces a layer which is set up, or None where its state cannot be copied.

    The layer itself is not called: each instance gets a copy.
    """
    if _copy(layer) is None:
        return None

    def make(params: Any, blobs: Any) -> Traceable:
        copy = _copy(layer)
        if copy is None:
            raise LayerError("its state can no longer be copied")
        return Traceable(copy, shapes)

    return Definition(type_, make, origin_of(type(layer)))


def _copy(layer: Layer) -> Layer | None:
    """Return a copy of a layer without weights, None where it has some or is not plain data."""
    if layer.blobs:
        return None
    shell = object.__new__(type(layer))
    vars(shell).update({name: value for name, value in vars(layer).items() if name != "blobs"})
    return copied(shell)


def definition_of(cls: type[Layer], tops: int) -> Definition:
    """Return the definition of a layer's class for networks that anylayer compiles and writes as a whole."""

    def make(params: Mapping[str, Any], blobs: Sequence[Array]) -> Traceable:
        layer = make_layer(cls, params, 1, LayerParameter(type="Python"))
        return _SetUp(layer, tops, blobs)

    return Definition(cls.__name__, make, origin_of(cls))


class _SetUp(Traceable):
    """A layer that is set up when its inputs are known."""

    def __init__(self, layer: Layer, tops: int, weights: Sequence[Array]) -> None:
        super().__init__(layer, [()] * tops)
        self._weights = weights
        self._done = False

    def forward(self, inputs: Sequence[Array]) -> list[Array]:
        if not self._done:
            self._done = True
            self._set_up(inputs)
            take_weights(self.layer, self._weights)
        return super().forward(inputs)

    def _set_up(self, inputs: Sequence[Array]) -> None:
        """Call the layer's setup, which reads only shapes: with arrays of zeros, so that it runs as in pycaffe."""
        like = next((x for x in inputs if is_traced(x)), None)
        if all(type(d) is int for x in inputs for d in x.shape):
            call, arrays, like = call_contained, [np.zeros(x.shape, x.dtype) for x in inputs], None
        else:
            call, arrays = call_user, [*inputs]
        top = [_TracedTop(like, shape) for shape in self._shapes]
        call(self.layer.setup, [Blob(x) for x in arrays], top)
        self._shapes = [blob.shape for blob in top]
