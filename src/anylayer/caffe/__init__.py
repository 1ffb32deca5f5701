"""pycaffe without Caffe: Net, Layer, NetSpec, io, Classifier, Detector, caffe_pb2, and weights by layer names.

    import anylayer.caffe as caffe

    net = caffe.Net("deploy.prototxt", "deploy.caffemodel", caffe.TEST)
    net.blobs["data"].data[...] = image
    prob = net.forward()["prob"]

A script written for pycaffe works with its import changed. docs/pycaffe.md says what differs.
"""

from __future__ import annotations

import importlib
from typing import Any

from anylayer.caffe import modes
from anylayer.caffe.alias import install
from anylayer.caffe.blob import Blob
from anylayer.caffe.fillers import set_random_seed
from anylayer.caffe.modes import *  # noqa: F403 (modes lists its names)
from anylayer.caffe.net import TEST, TRAIN, Net, TrainingError
from anylayer.caffe.net_parameter import LayerParameter, NetParameter
from anylayer.caffe.net_spec import Layers, NetSpec, Parameters, Top, to_proto
from anylayer.caffe.python_layer import Layer
from anylayer.caffe.transfer import transfer_weights
from anylayer.convert.transfer import Transfer

__version__ = "1.0.0"
"""The version of Caffe whose interface this is, for scripts that compare it."""

layers = Layers()
"""`layers.Convolution(bottom, num_output=8, kernel_size=3)` returns a top, or a tuple of `ntop` tops."""

params = Parameters()
"""`params.Pooling.MAX` is the number of a value of an enum."""

_LATER = {
    "Classifier": "classifier",
    "Detector": "detector",
    **{name: name for name in ("_caffe", "classifier", "coord_map", "detector", "draw", "io", "proto", "pycaffe")},
}
"""Names that are imported when they are read for the first time, and the modules that have them."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'anylayer.caffe' has no attribute '{name}'")
    module = importlib.import_module(f"anylayer.caffe.{_LATER[name]}")
    value = getattr(module, name) if name in ("Classifier", "Detector") else module
    globals()[name] = value
    return value


__all__ = ["TEST", "TRAIN", "Blob", "Layer", "LayerParameter", "Net", "NetParameter", "NetSpec", "Top"]
__all__ += ["TrainingError", "Transfer", "install", "layers", "params", "set_random_seed", "to_proto"]
__all__ += ["Classifier", "Detector", "io", "proto", "transfer_weights"]  # noqa: F405 (these are in _LATER)
__all__ += modes.__all__
