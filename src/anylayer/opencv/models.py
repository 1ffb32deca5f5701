"""Networks with their pre- and post-processing, with the interface of cv2.dnn's high-level classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anylayer.errors import InputError, need
from anylayer.network import Array
from anylayer.opencv import constants as c
from anylayer.opencv.blob import Image2BlobParams, Numbers, blobFromImageWithParams, scalar, size_of
from anylayer.opencv.errors import converted
from anylayer.opencv.net import Net
from anylayer.opencv.nms import NMSBoxes
from anylayer.opencv.read import readNet

Detections = tuple[Any, Any, Any]

_DETECTION_OUTPUT = "DetectionOutput"
_REGIONS = ("yolo", "region", "Gaussian_yolo", "detection")
"""The types of the last layer of a network that DetectionModel runs: of Caffe, and of Darknet."""


class Model:
    """A network that runs on images: each frame is resized to the input's size and becomes a blob.

    Model(model, config) reads files, Model(net) takes a network that is already read.
    """

    @converted
    def __init__(self, model: Net | str | Path, config: str | Path = "") -> None:
        self._net = model if isinstance(model, Net) else readNet(model, config)
        self._params = Image2BlobParams()
        network = self._net.net.network
        kind = next(iter(network.inputs.values()), None)
        if kind is not None and len(kind.shape) == 4:
            last = network.layouts.get(next(iter(network.inputs))) == "NHWC"
            self._params.size = (kind.shape[2], kind.shape[1]) if last else (kind.shape[3], kind.shape[2])
        self._outputs = list(self._net.getUnconnectedOutLayersNames())

    @property
    def net(self) -> Net:
        """The network."""
        return self._net

    @converted
    def setInputParams(
        self,
        scale: float = 1.0,
        size: Sequence[int] = (0, 0),
        mean: Numbers = (),
        swapRB: bool = False,
        crop: bool = False,
    ) -> None:
        """Set how a blob is made from a frame; see blobFromImage."""
        self._params = Image2BlobParams((scale,) * 4, size, mean, swapRB)
        self.setInputCrop(crop)

    @converted
    def setInputSize(self, *size: Any) -> Self:
        """Set the size of the input: (width, height), or two numbers."""
        self._params.size = size_of(size[0] if len(size) == 1 else size)
        return self

    @converted
    def setInputMean(self, mean: Numbers) -> Self:
        """Set the values that are subtracted from the channels."""
        self._params.mean = scalar(mean)
        return self

    @converted
    def setInputScale(self, scale: Numbers) -> Self:
        """Set the factor of each channel; a single number is the factor of all channels."""
        factors = scalar(scale)
        self._params.scalefactor = (factors[0],) * 4 if not any(factors[1:]) else factors
        return self

    @converted
    def setInputCrop(self, crop: bool) -> Self:
        """Set whether frames keep their aspect ratio and are cropped."""
        self._params.paddingmode = c.DNN_PMODE_CROP_CENTER if crop else c.DNN_PMODE_NULL
        return self

    @converted
    def setInputSwapRB(self, swapRB: bool) -> Self:
        """Set whether red and blue are exchanged."""
        self._params.swapRB = swapRB
        return self

    @converted
    def setOutputNames(self, outNames: Sequence[str]) -> Self:
        """Set the layers whose outputs predict returns."""
        self._outputs = list(outNames)
        return self

    @converted
    def setPreferableBackend(self, backendId: int) -> Self:
        """See Net.setPreferableBackend."""
        self._net.setPreferableBackend(backendId)
        return self

    @converted
    def setPreferableTarget(self, targetId: int) -> Self:
        """See Net.setPreferableTarget."""
        self._net.setPreferableTarget(targetId)
        return self

    def enableWinograd(self, useWinograd: bool) -> Self:
        """Do nothing; see Net.enableWinograd."""
        return self

    @converted
    def predict(self, frame: Array, outs: Any = None) -> tuple[Array, ...]:
        """Run the network on a frame, and return its outputs."""
        width, height = self._params.size
        need(width and height, "the input size is not known; call setInputSize", InputError)
        self._net.setInput(blobFromImageWithParams(frame, self._params))
        if self._has_image_sizes:
            self._net.setInput(np.array([[height, width, 1.6]], np.float32), "im_info")
        return tuple(self._net.forward(self._outputs))

    @property
    def _has_image_sizes(self) -> bool:
        """Whether the network is a Faster R-CNN or R-FCN, which is given the image's size as an input."""
        return "im_info" in self._net.net.network.inputs

    def _one_output(self, frame: Array) -> Array:
        outputs = self.predict(frame)
        need(
            len(outputs) == 1,
            f"the network has {len(outputs)} outputs, expected 1; call setOutputNames",
            InputError,
        )
        return outputs[0]


class ClassificationModel(Model):
    """A network that computes a score for each class."""

    _softmax = False

    def setEnableSoftmaxPostProcessing(self, enable: bool) -> Self:
        """Set whether the scores go through a softmax."""
        self._softmax = enable
        return self

    def getEnableSoftmaxPostProcessing(self) -> bool:
        """Return whether the scores go through a softmax."""
        return self._softmax

    @converted
    def classify(self, frame: Array) -> tuple[int, float]:
        """Return the best class of a frame and its score."""
        scores = self._one_output(frame).ravel()
        if self._softmax:
            powers = np.exp(scores - scores.max())
            scores = powers / powers.sum()
        best = int(scores.argmax())
        return best, float(scores[best])


class KeypointsModel(Model):
    """A network that computes a map for each keypoint, or the keypoints themselves."""

    @converted
    def estimate(self, frame: Array, thresh: float = 0.5) -> NDArray[np.float32]:
        """Return the keypoints (x, y) of a frame, (-1, -1) where a map is nowhere above `thresh`.

        The last map is the background and has no keypoint.
        """
        output = self._one_output(frame)
        if output.ndim != 4:
            return np.ascontiguousarray(output.reshape(output.shape[1], -1)[:, :2], np.float32)
        maps, (height, width) = output[0, :-1], output.shape[2:]
        flat = maps.reshape(len(maps), -1)
        best = flat.argmax(axis=1)
        points = np.stack([best % width, best // width], axis=1).astype(np.float32)
        points *= np.array([frame.shape[1] / width, frame.shape[0] / height], np.float32)
        points[flat.max(axis=1, initial=-np.inf) <= thresh] = -1
        return points


class SegmentationModel(Model):
    """A network that computes a score for each class at each pixel."""

    @converted
    def segment(self, frame: Array, mask: Any = None) -> NDArray[np.uint8]:
        """Return the best class of each pixel, in the size of the network's output."""
        scores = self._one_output(frame)
        need(
            scores.ndim == 4 and scores.shape[1] <= 256,
            f"a segmentation is (N, C, H, W) with at most 256 classes, got {scores.shape}",
            InputError,
        )
        return np.asarray(scores[0].argmax(axis=0), np.uint8)


class DetectionModel(Model):
    """A network that ends in a DetectionOutput layer (SSD, Faster R-CNN, R-FCN) or in boxes of Darknet (YOLO)."""

    _across_classes = False

    @converted
    def __init__(self, model: Net | str | Path, config: str | Path = "") -> None:
        """Read the network. Layers of YOLO leave the NMS to `detect` from now on, as in OpenCV."""
        super().__init__(model, config)
        self._has_regions = self._net.net.network.format == "darknet"
        for node in self._net.net.network.nodes:
            if self._has_regions and node.type in _REGIONS:
                node.params["options"]["nms_threshold"] = 0.0

    def setNmsAcrossClasses(self, value: bool) -> Self:
        """Set whether boxes of different classes overlap. It has no effect on DetectionOutput, as in OpenCV."""
        self._across_classes = value
        return self

    def getNmsAcrossClasses(self) -> bool:
        """Return what setNmsAcrossClasses has set."""
        return self._across_classes

    @converted
    def detect(self, frame: Array, confThreshold: float = 0.5, nmsThreshold: float = 0.0) -> Detections:
        """Return class ids, scores and boxes (x, y, width, height) of the detections in a frame.

        nmsThreshold has an effect on boxes of YOLO only, as in OpenCV: DetectionOutput does the NMS itself.
        """
        outputs = self.predict(frame)
        last = self._net.getLayer(len(self._net.getLayerNames())).type
        if self._has_regions and last in _REGIONS:
            return self._regions(outputs, (frame.shape[1], frame.shape[0]), confThreshold, nmsThreshold)
        types = ", ".join((_DETECTION_OUTPUT, *_REGIONS))
        rule = f"the last layer must be one of {types}, got '{last}'; run the network with Net and NMSBoxes"
        need(last == _DETECTION_OUTPUT, rule, InputError)
        rows = np.concatenate([output.reshape(-1, 7) for output in outputs])
        rows = rows[rows[:, 2] >= np.float32(confThreshold)]
        if not len(rows):
            return (), (), ()
        size = self._params.size if self._has_image_sizes else (frame.shape[1], frame.shape[0])
        return rows[:, 1].astype(np.int32), rows[:, 2].copy(), _boxes_in_frame(rows[:, 3:], size)

    def _regions(
        self, outputs: Sequence[Array], frame: tuple[int, int], confThreshold: float, nmsThreshold: float
    ) -> Detections:
        """Return the detections in rows of YOLO's boxes, each with its best class, in a frame (width, height)."""
        table = np.concatenate([output.reshape(-1, output.shape[-1]) for output in outputs])
        labels, scores = table[:, 5:].argmax(axis=1).astype(np.int32), table[:, 5:].max(axis=1)
        some = scores >= np.float32(confThreshold)
        labels, scores = labels[some], scores[some]
        pixels = (table[some, :4] * np.array([*frame, *frame], np.float32)).astype(np.int32)
        size = np.array(frame, np.int32)
        starts = np.clip(pixels[:, :2] - pixels[:, 2:] // 2, 0, size - 1)
        boxes = np.concatenate([starts, np.clip(pixels[:, 2:], 1, size - starts)], axis=1)
        if nmsThreshold and len(boxes):
            groups = [scores >= 0] if self._across_classes else [labels == label for label in np.unique(labels)]
            order = []
            for group in map(np.flatnonzero, groups):
                order += [*group[np.asarray(NMSBoxes(boxes[group], scores[group], confThreshold, nmsThreshold))]]
            labels, scores, boxes = labels[order], scores[order], boxes[order]
        return (labels, scores, boxes) if len(boxes) else ((), (), ())


def _boxes_in_frame(corners: Array, size: Sequence[int]) -> NDArray[np.int32]:
    """Return boxes (x, y, width, height) in a frame of this size, from corners in pixels or in shares of it."""
    ends = corners.astype(np.int32)
    sizes = ends[:, 2:] - ends[:, :2] + 1
    shares = (sizes[:, 0] <= 2) | (sizes[:, 1] <= 2)
    scaled = (corners * np.array([*size, *size], np.float32)).astype(np.int32)
    ends = np.where(shares[:, None], scaled, ends)
    sizes = ends[:, 2:] - ends[:, :2] + 1
    frame = np.array(size, np.int32)
    starts = np.clip(ends[:, :2], 0, frame - 1)
    return np.concatenate([starts, np.clip(sizes, 1, frame - starts)], axis=1)
