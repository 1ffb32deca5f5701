"""The fourteen networks and two detectors: files or generators, the blobs to compare, and text for other tools.

Most are files of the reference data. mobilenet_v2, se_bn_inception and the stand-in for a QR code detector are
written by the generators in this folder. Networks without trained weights get random ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.reference import REFERENCE

from benchmarks.networks import mobilenet_v2, qr_detector, se_bn_inception, vgg_ssd


@dataclass(frozen=True)
class Source:
    """A network to measure.

    `model`, `weights`: paths in the reference data. `make`: the generator of a network without a file. `outputs`:
    blobs to compute instead of the network's outputs (SSD networks are cut before PriorBox and DetectionOutput,
    and networks whose random weights saturate the softmax before it). `shape`: the shape of the input, if it
    differs from the file's. `note`: what the name does not say.
    """

    name: str
    model: str = ""
    weights: str = ""
    make: Callable[[], str] | None = None
    outputs: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    dialect: str | None = None
    note: str = ""

    @property
    def path(self) -> Path:
        """Return the path of a file in the reference data."""
        return REFERENCE / self.model


_SSD = ("mbox_loc", "mbox_conf_flatten")
_YOLO = "prototxt/eric612+MobileNet-YOLO__models__"

NETWORKS = (
    Source("ultraface_RFB-320", "models/ultraface_RFB-320/deploy.prototxt", "weights.caffemodel"),
    Source(
        "qr_detector",
        make=qr_detector.text,
        outputs=_SSD,
        note="stand-in for WeChat's QR code detector: an SSD of the same kind and size",
    ),
    Source("mtcnn_det1", "models/mtcnn_det1/deploy.prototxt", "weights.caffemodel", shape=(1, 3, 172, 225)),
    Source(
        "yolov3_lite_seg",
        f"{_YOLO}cityscapes__mobilenet_yolov3_deploy.prototxt",
        outputs=("conv22", "conv23", "conv24", "sigmoid"),
        note="stand-in for tusimple's: the same author's MobileNet-YOLOv3-lite with segmentation, for cityscapes",
    ),
    Source(
        "squeezenet_v1.1",
        "models/squeezenet_v1.1/deploy.prototxt",
        "weights.caffemodel",
        shape=(1, 3, 227, 227),
    ),
    Source("mobilenet_v1", "prototxt/shicai+MobileNet-Caffe__mobilenet_deploy.prototxt"),
    Source("mobilenet_v2", make=mobilenet_v2.text, outputs=("fc",)),
    Source("shufflenet_v1_g3", "models/shufflenet_v1_g3/deploy.prototxt", "weights.caffemodel"),
    Source("shufflenet_v2", "prototxt/farmingyard+ShuffleNet__shufflenet_v2_1x_deploy.prototxt"),
    Source("googlenet", "prototxt/BVLC+caffe__models__bvlc_googlenet__deploy.prototxt", shape=(1, 3, 224, 224)),
    Source(
        "mobilenet_ssd", "models/mobilenet_ssd/deploy.prototxt", "weights.caffemodel", outputs=_SSD, dialect="ssd"
    ),
    Source("pelee", f"{_YOLO}pelee__VOC0712__SSD_304x304__deploy.prototxt", outputs=_SSD, dialect="ssd"),
    Source(
        "hed", "models/hed/deploy.prototxt", shape=(1, 3, 500, 500), note="Caffe's own Crop; see also part layers"
    ),
    Source("se_bn_inception", make=se_bn_inception.text),
)

DETECTORS = (
    Source("vgg_ssd300", make=vgg_ssd.text, dialect="ssd", note="SSD on VGG-16, with DetectionOutput"),
    Source(
        "mobilenet_ssd_boxes",
        "models/mobilenet_ssd/deploy.prototxt",
        "weights.caffemodel",
        dialect="ssd",
        note="mobilenet_ssd with DetectionOutput",
    ),
)
"""Networks with DetectionOutput, which another engine may compute than the convolutions."""
