"""OpenCV's dnn module without OpenCV: `import anylayer.opencv as dnn`.

    net = dnn.readNetFromCaffe("deploy.prototxt", "net.caffemodel")
    net.setInput(dnn.blobFromImage(image, size=(224, 224), mean=(104, 117, 123)))
    scores = net.forward()

It reads the networks that OpenCV 5 does not read any more, with layers that `dnn_registerLayer` adds. `install()`
puts what OpenCV 5 has lost into `cv2` and `cv2.dnn`, and `python -m anylayer.opencv script.py` runs a script with
it.
"""

from __future__ import annotations

from anylayer.opencv.blob import (
    Image2BlobParams,
    blobFromImage,
    blobFromImages,
    blobFromImagesWithParams,
    blobFromImageWithParams,
    imagesFromBlob,
)
from anylayer.opencv.constants import (
    CV_8U,
    CV_32F,
    DNN_BACKEND_CANN,
    DNN_BACKEND_CUDA,
    DNN_BACKEND_DEFAULT,
    DNN_BACKEND_HALIDE,
    DNN_BACKEND_INFERENCE_ENGINE,
    DNN_BACKEND_OPENCV,
    DNN_BACKEND_TIMVX,
    DNN_BACKEND_VKCOM,
    DNN_BACKEND_WEBNN,
    DNN_LAYOUT_NCDHW,
    DNN_LAYOUT_NCHW,
    DNN_LAYOUT_ND,
    DNN_LAYOUT_NDHWC,
    DNN_LAYOUT_NHWC,
    DNN_LAYOUT_PLANAR,
    DNN_LAYOUT_UNKNOWN,
    DNN_PMODE_CROP_CENTER,
    DNN_PMODE_LETTERBOX,
    DNN_PMODE_NULL,
    DNN_TARGET_CPU,
    DNN_TARGET_CPU_FP16,
    DNN_TARGET_CUDA,
    DNN_TARGET_CUDA_FP16,
    DNN_TARGET_FPGA,
    DNN_TARGET_HDDL,
    DNN_TARGET_MYRIAD,
    DNN_TARGET_NPU,
    DNN_TARGET_OPENCL,
    DNN_TARGET_OPENCL_FP16,
    DNN_TARGET_VULKAN,
    SOFT_NMSMETHOD_SOFTNMS_GAUSSIAN,
    SOFT_NMSMETHOD_SOFTNMS_LINEAR,
    SoftNMSMethod_SOFTNMS_GAUSSIAN,
    SoftNMSMethod_SOFTNMS_LINEAR,
)
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
    "CV_8U",
    "CV_32F",
    "DNN_BACKEND_CANN",
    "DNN_BACKEND_CUDA",
    "DNN_BACKEND_DEFAULT",
    "DNN_BACKEND_HALIDE",
    "DNN_BACKEND_INFERENCE_ENGINE",
    "DNN_BACKEND_OPENCV",
    "DNN_BACKEND_TIMVX",
    "DNN_BACKEND_VKCOM",
    "DNN_BACKEND_WEBNN",
    "DNN_LAYOUT_NCDHW",
    "DNN_LAYOUT_NCHW",
    "DNN_LAYOUT_ND",
    "DNN_LAYOUT_NDHWC",
    "DNN_LAYOUT_NHWC",
    "DNN_LAYOUT_PLANAR",
    "DNN_LAYOUT_UNKNOWN",
    "DNN_PMODE_CROP_CENTER",
    "DNN_PMODE_LETTERBOX",
    "DNN_PMODE_NULL",
    "DNN_TARGET_CPU",
    "DNN_TARGET_CPU_FP16",
    "DNN_TARGET_CUDA",
    "DNN_TARGET_CUDA_FP16",
    "DNN_TARGET_FPGA",
    "DNN_TARGET_HDDL",
    "DNN_TARGET_MYRIAD",
    "DNN_TARGET_NPU",
    "DNN_TARGET_OPENCL",
    "DNN_TARGET_OPENCL_FP16",
    "DNN_TARGET_VULKAN",
    "SOFT_NMSMETHOD_SOFTNMS_GAUSSIAN",
    "SOFT_NMSMETHOD_SOFTNMS_LINEAR",
    "AsyncArray",
    "ClassificationModel",
    "DetectionModel",
    "DictValue",
    "Image2BlobParams",
    "KeypointsModel",
    "Layer",
    "Model",
    "NMSBoxes",
    "NMSBoxesBatched",
    "NMSBoxesRotated",
    "Net",
    "Net_readFromModelOptimizer",
    "SegmentationModel",
    "SoftNMSMethod_SOFTNMS_GAUSSIAN",
    "SoftNMSMethod_SOFTNMS_LINEAR",
    "blobFromImage",
    "blobFromImageWithParams",
    "blobFromImages",
    "blobFromImagesWithParams",
    "dnn_registerLayer",
    "dnn_unregisterLayer",
    "error",
    "getAvailableTargets",
    "imagesFromBlob",
    "install",
    "readNet",
    "readNetFromCaffe",
    "readNetFromDarknet",
    "readNetFromModelOptimizer",
    "readNetFromONNX",
    "readNetFromTFLite",
    "readNetFromTensorflow",
    "readNetFromTorch",
    "softNMSBoxes",
    "uninstall",
]
