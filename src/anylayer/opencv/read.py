"""readNet and similar functions: read networks from files and buffers, with OpenCV's names and arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from anylayer.errors import FileError, InputError, need
from anylayer.opencv.buffers import DIALECT, Content, NetworkFiles, content, network_files
from anylayer.opencv.errors import converted
from anylayer.opencv.net import Net

_WEIGHTS = (".caffemodel", ".h5", ".bin", ".weights")
"""Suffixes of files of weights, which readNet takes in either place."""
_FRAMEWORKS = {
    "caffe": ("caffe", True, (".prototxt", ".caffemodel")),
    "tensorflow": ("tensorflow", False, (".pb", ".pbtxt")),
    "onnx": ("onnx", False, (".onnx", "")),
    "darknet": ("darknet", True, (".cfg", ".weights")),
    "tflite": ("tflite", False, (".tflite", "")),
    "dldt": ("openvino", True, (".xml", ".bin")),
    "openvino": ("openvino", True, (".xml", ".bin")),
}
"""The format of a framework, whether readNet's buffers are its weights and its network in this order, and the
suffixes of its network and its weights."""


@converted
def readNet(model: Any, config: Any = "", framework: Any = "") -> Net:
    """Read a network of any format; its content decides which.

    readNet(model, config, framework) takes files, in either order. readNet(framework, bufferModel, bufferConfig)
    takes buffers: "caffe", "darknet", "tensorflow", "tflite", "onnx" or "openvino", the weights (or the only
    file), and the network.
    """
    if not isinstance(config, (str, Path)) and config is not None:
        return _from_buffers(str(model), config, framework)
    network, weights = content(model, "model"), content(config, "config")
    if isinstance(network, (str, Path)) and Path(network).suffix.lower() in _WEIGHTS and weights is not None:
        network, weights = weights, network
    if network is None:
        raise InputError("readNet needs the file of a network")
    _refuse_text_graph(weights)
    return Net(NetworkFiles(network, weights, options={"dialect": DIALECT}))


def _from_buffers(framework: str, model: Any, config: Any) -> Net:
    names = ", ".join(_FRAMEWORKS)
    need(framework.lower() in _FRAMEWORKS, f"framework is one of {names}, got '{framework}'", InputError)
    weights_first = _FRAMEWORKS[framework.lower()][1] and content(config, "config") is not None
    return _net(framework.lower(), *((config, model) if weights_first else (model, config)))


def _net(framework: str, network: object, weights: object = None, **options: str) -> Net:
    """Return the network of a framework from its file and that of its weights, each a path or a buffer."""
    format, _, suffixes = _FRAMEWORKS[framework]
    files = content(network, suffixes[0]), content(weights, suffixes[1])
    return Net(network_files(*files, suffixes, format, **options))


def _refuse_text_graph(config: Content | None) -> None:
    """Refuse a text graph that was written for OpenCV, which stands for a TensorFlow graph with other nodes."""
    name = "" if isinstance(config, bytes) or config is None else str(config)
    need(
        not name.lower().endswith(".pbtxt"),
        f"{name}: a text graph (.pbtxt) beside the .pb is not read, because it replaces nodes of the graph; "
        "read the frozen graph alone",
        FileError,
    )


@converted
def readNetFromCaffe(
    prototxt: Any = None,
    caffeModel: Any = None,
    *,
    bufferProto: Any = None,
    bufferModel: Any = None,
    dialect: str = DIALECT,
) -> Net:
    """Read a Caffe network: a prototxt and its weights, each a path or a buffer.

    dialect: the fork of Caffe the file was written for, where it is not one that OpenCV 4 reads.
    """
    files = [prototxt if bufferProto is None else bufferProto, caffeModel if bufferModel is None else bufferModel]
    return _net("caffe", *files, dialect=dialect)


@converted
def readNetFromTensorflow(
    model: Any = None, config: Any = None, *, bufferModel: Any = None, bufferConfig: Any = None
) -> Net:
    """Read a TensorFlow network: the path or the content of a frozen graph, or the folder of a SavedModel.

    A text graph (.pbtxt) that was written for OpenCV is refused.
    """
    text = content(config if bufferConfig is None else bufferConfig, ".pbtxt")
    _refuse_text_graph("config.pbtxt" if isinstance(text, bytes) else text)
    return _net("tensorflow", model if bufferModel is None else bufferModel, text)


@converted
def readNetFromONNX(onnxFile: Any = None, *, buffer: Any = None) -> Net:
    """Read an ONNX model: its path, or its content."""
    return _net("onnx", onnxFile if buffer is None else buffer)


@converted
def readNetFromModelOptimizer(
    xml: Any = None, bin: Any = None, *, bufferModelConfig: Any = None, bufferWeights: Any = None
) -> Net:
    """Read an OpenVINO model: the .xml and the .bin, each a path or a buffer."""
    files = [
        xml if bufferModelConfig is None else bufferModelConfig,
        bin if bufferWeights is None else bufferWeights,
    ]
    return _net("openvino", *files)


@converted
def readNetFromDarknet(
    cfgFile: object = None, darknetModel: object = None, *, bufferCfg: object = None, bufferModel: object = None
) -> Net:
    """Read a Darknet network: the .cfg file and the .weights file, each a path or a buffer."""
    files = [cfgFile if bufferCfg is None else bufferCfg, darknetModel if bufferModel is None else bufferModel]
    return _net("darknet", *files)


@converted
def readNetFromTorch(*files: Any) -> NoReturn:
    """Raise an error: networks of Torch 7 are not read."""
    raise FileError("networks of Torch 7 (.t7, .net) are not read; convert the network to ONNX, or use OpenCV 4")


@converted
def readNetFromTFLite(model: object = None, *, bufferModel: object = None) -> Net:
    """Read a TensorFlow Lite network: its path, or its content. Blobs of rank 4 are NCHW, as in OpenCV."""
    return _net("tflite", model if bufferModel is None else bufferModel)
