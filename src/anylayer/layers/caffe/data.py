"""Layers that read the inputs of a network from files: their outputs become inputs of the network.

Fields that describe the files have no effect, and neither do fields that forks added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anylayer.layer import Enum, Layer, Message, field, layer, need
from anylayer.network import Node, TensorType


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


@layer("AnnotatedData")
class AnnotatedData(Data):
    """Declare an input that Caffe reads with boxes from a database (SSD).

    The first output is an input of the network; the others serve training.
    Source: weiliu89/caffe (ssd) src/caffe/layers/annotated_data_layer.cpp.
    """


@layer("BoxData")
class BoxData(Data):
    """Declare an input that Caffe reads with boxes from a database (YOLO v2).

    The first output is an input of the network; the others serve training.
    Source: gklz1982/caffe-yolov2 src/caffe/layers/box_data_layer.cpp.
    """


@layer("ImageData")
class ImageData(TransformingLayer):
    """Declare an input that Caffe reads from the image files of a list.

    The first output is an input of the network; the others serve training.
    Source: BVLC/caffe src/caffe/layers/image_data_layer.cpp.
    """

    message = "image_data_param"
    numbers = {"": 115}
    source: str = field(1, "string", "", doc="path of the list")
    batch_size: int = field(4, "uint32", 1, doc="samples per batch")
    rand_skip: int = field(7, "uint32", 0, doc="samples to skip at the start")
    shuffle: bool = field(8, "bool", False, doc="shuffle the list")
    new_height: int = field(9, "uint32", 0, doc="resize to this height; 0: do not")
    new_width: int = field(10, "uint32", 0, doc="resize to this width; 0: do not")
    is_color: bool = field(11, "bool", True, doc="3 channels, else 1")
    root_folder: str = field(12, "string", "", doc="folder to which the paths of the list are relative")


@layer("DenseImageData")
class DenseImageData(DataLayer):
    """Declare an input that Caffe reads from image files with label images (SegNet).

    The first output is an input of the network; the others serve training.
    Source: alexgkendall/caffe-segnet src/caffe/layers/dense_image_data_layer.cpp.
    """

    message = "dense_image_data_param"
    numbers = {"segnet": 138}
    source: str = field(1, "string", "", doc="path of the list")
    batch_size: int = field(2, "uint32", 0, doc="samples per batch")
    rand_skip: int = field(3, "uint32", 0, doc="samples to skip at the start")
    shuffle: bool = field(4, "bool", False, doc="shuffle the list")
    new_height: int = field(5, "uint32", 0, doc="resize to this height; 0: do not")
    new_width: int = field(6, "uint32", 0, doc="resize to this width; 0: do not")
    is_color: bool = field(7, "bool", True, doc="3 channels, else 1")
    mean_file: str = field(8, "string", "", doc="mean image")
    root_folder: str = field(9, "string", "", doc="folder to which the paths of the list are relative")


@layer("HDF5Data")
class HDF5Data(DataLayer):
    """Declare inputs that Caffe reads from the datasets of HDF5 files, one output per dataset.

    The first output is an input of the network; the others serve training.
    Source: BVLC/caffe src/caffe/layers/hdf5_data_layer.cpp.
    """

    message = "hdf5_data_param"
    numbers = {"": 112}
    source: str = field(1, "string", "", doc="path of the list")
    batch_size: int = field(2, "uint32", 0, doc="samples per batch")
    shuffle: bool = field(3, "bool", False, doc="shuffle files and samples")


@layer("WindowData")
class WindowData(TransformingLayer):
    """Declare an input that Caffe crops as windows from image files (R-CNN).

    The first output is an input of the network; the others serve training.
    Source: BVLC/caffe src/caffe/layers/window_data_layer.cpp.
    """

    message = "window_data_param"
    numbers = {"": 129}
    source: str = field(1, "string", "", doc="path of the list")
    fg_threshold: float = field(7, "float", 0.5, doc="overlap that makes a window foreground")
    bg_threshold: float = field(8, "float", 0.5, doc="overlap below which a window is background")
    fg_fraction: float = field(9, "float", 0.25, doc="share of foreground windows")
    context_pad: int = field(10, "uint32", 0, doc="pixels around a window")
    crop_mode: str = field(11, "string", "warp", doc="warp or square")
    cache_images: bool = field(12, "bool", False, doc="keep all images in memory")
    root_folder: str = field(13, "string", "", doc="folder to which the paths of the list are relative")


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


@layer("VideoData")
class VideoData(DataLayer):
    """Declare an input that Caffe reads from a camera or a video file (SSD).

    The first output is an input of the network; the others serve training.
    Source: weiliu89/caffe (ssd) src/caffe/layers/video_data_layer.cpp.
    """

    message = "video_data_param"
    numbers = {"ssd": 207}
    video_type: str = field(1, Enum("WEBCAM", "VIDEO"), "WEBCAM", doc="where the frames come from")
    device_id: int = field(2, "int32", 0, doc="which camera")
    video_file: str = field(3, "string", "", doc="path of the video")
    skip_frames: int = field(4, "uint32", 0, doc="frames to skip between two")
