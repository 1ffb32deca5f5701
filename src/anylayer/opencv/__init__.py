"""OpenCV's dnn module without OpenCV: `import anylayer.opencv as dnn`.

    net = dnn.readNetFromCaffe("deploy.prototxt", "net.caffemodel")
    net.setInput(dnn.blobFromImage(image, size=(224, 224), mean=(104, 117, 123)))
    scores = net.forward()

It reads the networks that OpenCV 5 does not read any more, with layers that `dnn_registerLayer` adds. `install()`
puts what OpenCV 5 has lost into `cv2` and `cv2.dnn`, and `python -m anylayer.opencv script.py` runs a script with
it.
"""

from __future__ import annotations

from anylayer.opencv import constants
from anylayer.opencv.blob import (
    Image2BlobParams,
    blobFromImage,
    blobFromImages,
    blobFromImagesWithParams,
    blobFromImageWithParams,
    imagesFromBlob,
)
from anylayer.opencv.constants import *  # noqa: F403 (each name stands once, in constants.py)
from anylayer.opencv.dict_value import DictValue
from anylayer.opencv.errors import error
from anylayer.opencv.install import install, uninstall
from anylayer.opencv.layer import Layer
from anylayer.opencv.models import ClassificationModel, DetectionModel, KeypointsModel, Model, SegmentationModel
from anylayer.opencv.net import AsyncArray, Net
from anylayer.opencv.nms import NMSBoxes, NMSBoxesBatched, NMSBoxesRotated, softNMSBoxes
from anylayer.opencv.read import (
    readNet,
    readNetFromCaffe,
    readNetFromDarknet,
    readNetFromModelOptimizer,
    readNetFromONNX,
    readNetFromTensorflow,
    readNetFromTFLite,
    readNetFromTorch,
)
from anylayer.opencv.registry import dnn_registerLayer, dnn_unregisterLayer

Net_readFromModelOptimizer = readNetFromModelOptimizer


def getAvailableTargets(be: int) -> tuple[int, ...]:
    """Return the targets of a backend: the CPU."""
    return (0,)


__all__ = [
    "AsyncArray", "ClassificationModel", "DetectionModel", "DictValue", "Image2BlobParams", "KeypointsModel",
    "Layer", "Model", "NMSBoxes", "NMSBoxesBatched", "NMSBoxesRotated", "Net", "Net_readFromModelOptimizer",
    "SegmentationModel", "blobFromImage", "blobFromImageWithParams", "blobFromImages",
    "blobFromImagesWithParams", "dnn_registerLayer", "dnn_unregisterLayer", "error", "getAvailableTargets",
    "imagesFromBlob", "install", "readNet", "readNetFromCaffe", "readNetFromDarknet",
    "readNetFromModelOptimizer", "readNetFromONNX", "readNetFromTFLite", "readNetFromTensorflow",
    "readNetFromTorch", "softNMSBoxes", "uninstall",
]  # fmt: skip
__all__ += [name for name in vars(constants) if name[0].isupper()]
