"""Layers at the ends of a network: its inputs, data of a training, constants, and sinks.

The outputs of layers that read training data become inputs of the network. Fields that describe the files have no
effect, and neither do fields that forks added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import given
from anylayer.layer import Array, Enum, Layer, Message, Node, TensorType, field, layer, need
from anylayer.layers._table import define, operators, row
from anylayer.layers.caffe._messages import BlobShape, FillerParameter, constant, reads


@layer("Input")
class Input(Layer):
    """Declare inputs of the network, one per output.

    `shape` states one shape per output, or one for all.
    Source: BVLC/caffe src/caffe/layers/input_layer.cpp.
    """

    message = "input_param"
    numbers = {"": 143}
    role = "input"
    shape: tuple[BlobShape, ...] = field(
        1,
        BlobShape,
        repeated=True,
        doc="one for all outputs, or one per output; none: given when the network runs",
    )

    def input_types(self) -> list[TensorType | None]:
        shapes = [tuple(s.dim) for s in self.shape]
        need(
            len(shapes) in (0, 1, self.outputs),
            f"shape must be given once, once for each of the {self.outputs} outputs, or never, got {len(shapes)}",
        )
        if not shapes:
            return [None] * self.outputs
        for shape in shapes:
            need(all(d >= 0 for d in shape), f"dimensions must be 0 or more, got {shape}")
        return [TensorType.of(s) for s in (shapes if len(shapes) == self.outputs else shapes * self.outputs)]


@layer("DummyData")
class DummyData(Layer):
    """Return constants of the given shapes, one output per shape.

    Source: BVLC/caffe src/caffe/layers/dummy_data_layer.cpp.
    """

    message = "dummy_data_param"
    numbers = {"": 109}
    data_filler: tuple[FillerParameter, ...] = field(
        1, FillerParameter, repeated=True, doc="values: none (0), one for all outputs, or one each"
    )
    num: tuple[int, ...] = field(2, "uint32", repeated=True, doc="older spelling of shape: axis 0")
    channels: tuple[int, ...] = field(3, "uint32", repeated=True, doc="older spelling of shape: axis 1")
    height: tuple[int, ...] = field(4, "uint32", repeated=True, doc="older spelling of shape: axis 2")
    width: tuple[int, ...] = field(5, "uint32", repeated=True, doc="older spelling of shape: axis 3")
    shape: tuple[BlobShape, ...] = field(6, BlobShape, repeated=True, doc="one for all outputs, or one each")

    def fillers(self) -> list[tuple[FillerParameter, tuple[int, ...]]]:
        """Return the filler and the shape of each output."""
        return list(zip(self._each("data_filler", self.data_filler or (constant(0),)), self._shapes()))

    def forward(self) -> list[Array]:
        outputs = []
        for i, (filler, shape) in enumerate(self.fillers()):
            rule = (
                f"data_filler {i} of type '{filler.type}' draws random values, so the output is not defined. "
                "Make it an Input layer and feed the values"
            )
            outputs.append(given(filler.fill(shape), rule))
        return outputs

    def _each(self, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        need(
            len(values) in (1, self.outputs),
            f"{name} must be given once, or once for each of the {self.outputs} outputs, got {len(values)}",
        )
        return values if len(values) == self.outputs else values * self.outputs

    def _shapes(self) -> list[tuple[int, ...]]:
        older = ("num", "channels", "height", "width")
        if not any(self.has(n) for n in older):
            shapes = [tuple(s.dim) for s in self._each("shape", self.shape)]
        else:
            need(not self.shape, "give shape, or num, channels, height and width, not both")
            shapes = list(zip(*(self._each(n, getattr(self, n)) for n in older)))
        for shape in shapes:
            need(all(d >= 0 for d in shape), f"dimensions must be 0 or more, got {shape}")
        return [tuple(map(int, s)) for s in shapes]


@layer("DummyData", dialects=("sophgo",))
class DummyDataInput(DummyData):
    """Make inputs of the network of the given shapes, whose fillers have no effect (Sophgo).

    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    role = "input"
    needs_dialect = True

    def input_types(self) -> list[TensorType | None]:
        need(self.shape, "give shape: num, channels, height and width make empty arrays in Sophgo's Caffe")
        return [TensorType.of(shape) for _, shape in self.fillers()]


class DataLayer(Layer):
    """A layer whose first output is an input of the network; its other outputs serve training."""

    role = "data"

    def _take(self, target: Message, name: str, node: Node) -> None:
        values = node.params.get(name, {})
        if isinstance(values, Mapping):
            declared = {key: value for key, value in values.items() if key in target.fields}
            node = replace(node, params={**node.params, name: declared})
        super()._take(target, name, node)


class TransformingLayer(DataLayer):
    """A data layer that has older places of the fields of transform_param among its own fields."""

    scale: float = field(2, "float", 1.0, doc="older place of the field of transform_param")
    mean_file: str = field(3, "string", "", doc="older place of the field of transform_param")
    batch_size: int = field(4, "uint32", 0, doc="samples per batch")
    crop_size: int = field(5, "uint32", 0, doc="older place of the field of transform_param")
    mirror: bool = field(6, "bool", False, doc="older place of the field of transform_param")


@layer("Data")
class Data(TransformingLayer):
    """Declare an input that Caffe reads from a LevelDB or LMDB database.

    The first output is an input of the network; the others serve training.
    Source: BVLC/caffe src/caffe/layers/data_layer.cpp.
    """

    message = "data_param"
    numbers = {"": 107}
    source: str = field(1, "string", "", doc="path of the database")
    rand_skip: int = field(7, "uint32", 0, doc="samples to skip at the start")
    backend: str = field(8, Enum("LEVELDB", "LMDB"), "LEVELDB", doc="kind of the database")
    force_encoded_color: bool = field(9, "bool", False, doc="decode to 3 channels")
    prefetch: int = field(10, "uint32", 4, doc="batches to read ahead")


def _reads(name: str, base: type[DataLayer], what: str, source: str, /, **body: Any) -> None:
    """Register a data layer with the fields `body`."""
    details = f"The first output is an input of the network; the others serve training.\n    Source: {source}."
    define(name, base, f"Declare {what}.", details, **body)


_LIST = field(1, "string", "", doc="path of the list")
_reads("AnnotatedData", Data, "an input that Caffe reads with boxes from a database (SSD)",
    "weiliu89/caffe (ssd) src/caffe/layers/annotated_data_layer.cpp")  # fmt: skip
_reads("BoxData", Data, "an input that Caffe reads with boxes from a database (YOLO v2)",
    "gklz1982/caffe-yolov2 src/caffe/layers/box_data_layer.cpp")  # fmt: skip
_reads("ImageData", TransformingLayer, "an input that Caffe reads from the image files of a list",
    "BVLC/caffe src/caffe/layers/image_data_layer.cpp", message="image_data_param", numbers={"": 115},
    source=_LIST,
    batch_size=field(4, "uint32", 1, doc="samples per batch"),
    rand_skip=field(7, "uint32", 0, doc="samples to skip at the start"),
    shuffle=field(8, "bool", False, doc="shuffle the list"),
    new_height=field(9, "uint32", 0, doc="resize to this height; 0: do not"),
    new_width=field(10, "uint32", 0, doc="resize to this width; 0: do not"),
    is_color=field(11, "bool", True, doc="3 channels, else 1"),
    root_folder=field(12, "string", "", doc="folder to which the paths of the list are relative"))  # fmt: skip
_reads("DenseImageData", DataLayer, "an input that Caffe reads from image files with label images (SegNet)",
    "alexgkendall/caffe-segnet src/caffe/layers/dense_image_data_layer.cpp",
    message="dense_image_data_param", numbers={"segnet": 138},
    source=_LIST,
    batch_size=field(2, "uint32", 0, doc="samples per batch"),
    rand_skip=field(3, "uint32", 0, doc="samples to skip at the start"),
    shuffle=field(4, "bool", False, doc="shuffle the list"),
    new_height=field(5, "uint32", 0, doc="resize to this height; 0: do not"),
    new_width=field(6, "uint32", 0, doc="resize to this width; 0: do not"),
    is_color=field(7, "bool", True, doc="3 channels, else 1"),
    mean_file=field(8, "string", "", doc="mean image"),
    root_folder=field(9, "string", "", doc="folder to which the paths of the list are relative"))  # fmt: skip
_reads("HDF5Data", DataLayer, "inputs that Caffe reads from the datasets of HDF5 files, one output per dataset",
    "BVLC/caffe src/caffe/layers/hdf5_data_layer.cpp", message="hdf5_data_param", numbers={"": 112},
    source=_LIST,
    batch_size=field(2, "uint32", 0, doc="samples per batch"),
    shuffle=field(3, "bool", False, doc="shuffle files and samples"))  # fmt: skip
_reads("WindowData", TransformingLayer, "an input that Caffe crops as windows from image files (R-CNN)",
    "BVLC/caffe src/caffe/layers/window_data_layer.cpp", message="window_data_param", numbers={"": 129},
    source=_LIST,
    fg_threshold=field(7, "float", 0.5, doc="overlap that makes a window foreground"),
    bg_threshold=field(8, "float", 0.5, doc="overlap below which a window is background"),
    fg_fraction=field(9, "float", 0.25, doc="share of foreground windows"),
    context_pad=field(10, "uint32", 0, doc="pixels around a window"),
    crop_mode=field(11, "string", "warp", doc="warp or square"),
    cache_images=field(12, "bool", False, doc="keep all images in memory"),
    root_folder=field(13, "string", "", doc="folder to which the paths of the list are relative"))  # fmt: skip
_reads("VideoData", DataLayer, "an input that Caffe reads from a camera or a video file (SSD)",
    "weiliu89/caffe (ssd) src/caffe/layers/video_data_layer.cpp",
    message="video_data_param", numbers={"ssd": 207},
    video_type=field(1, Enum("WEBCAM", "VIDEO"), "WEBCAM", doc="where the frames come from"),
    device_id=field(2, "int32", 0, doc="which camera"),
    video_file=field(3, "string", "", doc="path of the video"),
    skip_frames=field(4, "uint32", 0, doc="frames to skip between two"))  # fmt: skip


@layer("MemoryData")
class MemoryData(DataLayer):
    """Declare inputs in memory: data (batch_size, channels, height, width) and labels (batch_size,).

    The first output is an input of the network; the others serve training.
    Source: BVLC/caffe src/caffe/layers/memory_data_layer.cpp.
    """

    message = "memory_data_param"
    numbers = {"": 119}
    batch_size: int = field(1, "uint32", 0, doc="samples per batch")
    channels: int = field(2, "uint32", 0, doc="of the data")
    height: int = field(3, "uint32", 0, doc="of the data")
    width: int = field(4, "uint32", 0, doc="of the data")

    def input_types(self) -> list[TensorType | None]:
        shape = (self.batch_size, self.channels, self.height, self.width)
        need(all(shape), f"batch_size, channels, height and width must be positive, got {shape}")
        types: list[TensorType | None] = [TensorType.of(shape), TensorType.of(shape[:1])]
        return [*types, *[None] * self.outputs][: self.outputs]


MAX_VALUES = 1 << 24  # elements of the output


@layer("ContinuationIndicator")
class ContinuationIndicator(Layer):
    """Return the indicators (time_step, batch_size) of sequences that begin in the first step: 0, and then 1.

    An input, if there is one, is not read.
    Source: the Caffe in tpu-mlir 1.30.2 (executed); intel/caffe src/caffe/proto/caffe.proto.
    """

    message = "continuation_indicator_param"
    numbers: ClassVar = {"": 311, "sophgo": 311, "intel": 200}
    time_step: int = field(1, "uint32", 0, doc="number of steps; at least 1")
    batch_size: int = field(2, "uint32", 1, doc="number of sequences; at least 1", dialects={"intel": 0})
    flag: bool = field(3, "bool", False, doc="Sophgo: whether the first step has 1, too")

    def setup(self) -> None:
        steps, batch = self.time_step, self.batch_size
        need(steps > 0 and batch > 0, f"time_step and batch_size must be at least 1, got {steps} and {batch}")
        need(
            steps * batch <= MAX_VALUES,
            f"time_step * batch_size must be at most {MAX_VALUES}, got {steps * batch}",
        )

    def forward(self, x: Array | None = None) -> Array:
        first = np.arange(self.time_step)[:, None] > (-1 if self.flag else 0)
        return np.broadcast_to(first.astype(np.float32), (self.time_step, self.batch_size))


def _parameter(shape: BlobShape, *, blob: Callable[..., Array]) -> Array:
    dims = tuple(shape.dim)
    need(all(d >= 0 for d in dims), f"dimensions must be 0 or more, got {dims}")
    return blob(0, dims, constant(0))


operators(
    Layer,
    "Source: BVLC/caffe {}.",
    {
        "Parameter": row("Return a weight as an output; 0 without a weights file.", _parameter,
            "include/caffe/layers/parameter_layer.hpp",
            "`shape` states the shape of the weight and of the output.", reads("parameter_param", 145),
            shape=field(1, BlobShape, doc="shape of the weight")),
        "HDF5Output": row("Consume the inputs; Caffe writes them to a file, here nothing is written.",
            lambda *inputs: [], "src/caffe/layers/hdf5_output_layer.cpp", "The inputs may have any shapes.",
            reads("hdf5_output_param", 113, role="sink",
                file_name=field(1, "string", "", doc="path of the file"))),
        "Silence": row("Consume any number of inputs, so that they are not outputs of the network.",
            lambda *inputs: [], "src/caffe/layers/silence_layer.cpp", "The inputs may have any shapes.",
            {"role": "sink"}),
    },
    __module__=__name__,
)  # fmt: skip
