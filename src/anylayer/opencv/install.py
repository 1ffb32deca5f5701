"""Put into cv2 what OpenCV 5 has lost: networks of Caffe and Darknet, and layers in Python that change shapes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anylayer.errors import InputError, given
from anylayer.layer.opencv_module import installed
from anylayer.network import Function
from anylayer.opencv import constants, models, read, registry
from anylayer.opencv.errors import converted
from anylayer.opencv.net import Net

_SUFFIXES = (".prototxt", ".caffemodel", ".cfg", ".weights")
_FORMATS = ("caffe", "darknet")
"""What networks are called that OpenCV 5 does not read."""
_READERS = ("readNet", "readNetFromTensorflow", "readNetFromONNX", "readNetFromModelOptimizer")
_LOST = ("readNetFromCaffe", "readNetFromDarknet", "readNetFromTorch")
_MODELS = ("Model", "ClassificationModel", "DetectionModel", "KeypointsModel", "SegmentationModel")
_ABSENT = object()

_replaced: list[tuple[Any, str, Any]] = []
"""What was replaced: the module, the name, and what it was before."""


@converted
def install() -> None:
    """Put what OpenCV 5 has lost into `cv2` and `cv2.dnn`; uninstall() takes it out again.

    Afterwards readNetFromCaffe and readNetFromDarknet are there, and readNet and the classes of models read their
    networks.
    dnn_registerLayer registers layers with anylayer, which runs each network that has layers of registered types;
    OpenCV runs the other networks. Nothing changes where OpenCV is older than 5. Raises `error` where OpenCV is
    not installed.
    """
    if _replaced:
        return
    cv2 = given(installed(), "OpenCV is not installed: pip install opencv-python", InputError)
    dnn = cv2.dnn
    if hasattr(dnn, "readNetFromCaffe"):
        return
    for name in _LOST:
        _put(dnn, name, getattr(read, name))
    for name in _READERS:
        _put(dnn, name, _reader(getattr(dnn, name), getattr(read, name)))
    for name in _MODELS:
        chosen = _model(getattr(dnn, name), getattr(models, name))
        _put(dnn, name, chosen)
        _put(cv2, f"dnn_{name}", chosen)
    for name in ("dnn_registerLayer", "dnn_unregisterLayer"):
        _put(cv2, name, getattr(registry, name))
    for name, value in vars(constants).items():
        if name.startswith("DNN_") and not hasattr(dnn, name):
            _put(dnn, name, value)


def uninstall() -> None:
    """Restore `cv2` and `cv2.dnn` as they were before install()."""
    while _replaced:
        place, name, before = _replaced.pop()
        if before is _ABSENT:
            delattr(place, name)
        else:
            setattr(place, name, before)


def _put(place: Any, name: str, value: Any) -> None:
    _replaced.append((place, name, vars(place).get(name, _ABSENT)))
    setattr(place, name, value)


def _reader(theirs: Function, ours: Callable[..., Net]) -> Function:
    """Return a function that reads networks that OpenCV lost, or with registered layers, with anylayer."""

    @functools.wraps(theirs)
    def call(*args: Any, **options: Any) -> Any:
        if _is_lost(args, options):
            return ours(*args, **options)
        net = _with_registered(ours, args, options) if registry.registered() else None
        return theirs(*args, **options) if net is None else net

    return call


def _with_registered(ours: Callable[..., Net], args: Any, options: dict[str, Any]) -> Net | None:
    """Return the network if it has layers of registered types, else None."""
    try:
        net = ours(*args, **options)
    except Exception:  # OpenCV says what is wrong with the file, or reads it
        return None
    return net if registry.registered().keys() & {node.type for node in net.net.network.nodes} else None


def _model(theirs: Function, ours: Callable[..., models.Model]) -> Function:
    """Return a function that makes a model with anylayer if its network is one of anylayer's, else with OpenCV."""

    @functools.wraps(theirs, updated=())
    def call(*args: Any, **options: Any) -> Any:
        model = args[0] if args else None
        mine = isinstance(model, Net) or _is_lost(args, options)
        return ours(*args, **options) if mine else theirs(*args, **options)

    return call


def _is_lost(args: Any, options: dict[str, Any]) -> bool:
    """Return whether arguments of readNet name a network that OpenCV 5 does not read: of Caffe or of Darknet."""
    values = [*args, *options.values()]
    texts = [str(one) for one in values if isinstance(one, (str, Path))]
    return any(Path(text).suffix.lower() in _SUFFIXES or text.lower() in _FORMATS for text in texts)
