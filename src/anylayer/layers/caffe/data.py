"""Layers that read a network's inputs from files: their outputs become inputs of the network.

Fields that tell where the data lies have no effect here, nor do those that forks added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anylayer.layer import Enum, Layer, Message, field, layer, need
from anylayer.network import Node, TensorType


class DataLayer(Layer):
    """A layer whose first output is the network's input; the others serve training."""

    role = "data"

    def _take(self, target: Message, name: str, node: Node) -> None:
        values = node.params.get(name, {})
        if isinstance(values, Mapping):
            known = {key: value for key, value in values.items() if key in target.fields}
            node = replace(node, params={**node.params, name: known})
        super()._take(target, name, node)


@layer("Data")
class Data(DataLayer):
    """Samples of a LevelDB or LMDB database.

    Source: BVLC/caffe src/caffe/layers/data_layer.cpp.
    """

    message = "data_param"
    numbers = {"": 107}
    source: str = field(1, "string", "", doc="path of the database")
    scale: float = field(2, "float", 1.0, doc="older spelling of transform_param's")
    mean_file: str = field(3, "string", "", doc="older spelling of transform_param's")
    batch_size: int = field(4, "uint32", 0, doc="samples at a time")
    crop_size: int = field(5, "uint32", 0, doc="older spelling of transform_param's")
    mirror: bool = field(6, "bool", False, doc="older spelling of transform_param's")
    rand_skip: int = field(7, "uint32", 0, doc="samples to skip at the start")
    backend: str = field(8, Enum("LEVELDB", "LMDB"), "LEVELDB", doc="kind of the database")
    force_encoded_color: bool = field(9, "bool", False, doc="decode to 3 channels")
    prefetch: int = field(10, "uint32", 4, doc="batches to read ahead")


@layer("AnnotatedData")
class AnnotatedData(Data):
    """Samples with boxes, of a database (SSD).

    Source: weiliu89/caffe (ssd) src/caffe/layers/annotated_data_layer.cpp.
    """


@layer("BoxData")
class BoxData(Data):
    """Samples with boxes, of a database (YOLO v2).

    Source: gklz1982/caffe-yolov2 src/caffe/layers/box_data_layer.cpp.
    """


@layer("ImageData")
class ImageData(DataLayer):
    """Image files that a list names.

    Source: BVLC/caffe src/caffe/layers/image_data_layer.cpp.
    """

    message = "image_data_param"
    numbers = {"": 115}
    source: str = field(1, "string", "", doc="path of the list")
    scale: float = field(2, "float", 1.0, doc="older spelling of transform_param's")
    mean_file: str = field(3, "string", "", doc="older spelling of transform_param's")
    batch_size: int = field(4, "uint32", 1, doc="samples at a time")
    crop_size: int = field(5, "uint32", 0, doc="older spelling of transform_param's")
    mirror: bool = field(6, "bool", False, doc="older spelling of transform_param's")
    rand_skip: int = field(7, "uint32", 0, doc="samples to skip at the start")
    shuffle: bool = field(8, "bool", False, doc="shuffle the list")
    new_height: int = field(9, "uint32", 0, doc="resize to this height; 0: do not")
    new_width: int = field(10, "uint32", 0, doc="resize to this width; 0: do not")
    is_color: bool = field(11, "bool", True, doc="3 channels, else 1")
    root_folder: str = field(12, "string", "", doc="in front of each path of the list")


@layer("DenseImageData")
class DenseImageData(DataLayer):
    """Image files with label images, that a list names (SegNet).

    Source: alexgkendall/caffe-segnet src/caffe/layers/dense_image_data_layer.cpp.
    """

    message = "dense_image_data_param"
    numbers = {"segnet": 138}
    source: str = field(1, "string", "", doc="path of the list")
    batch_size: int = field(2, "uint32", 0, doc="samples at a time")
    rand_skip: int = field(3, "uint32", 0, doc="samples to skip at the start")
    shuffle: bool = field(4, "bool", False, doc="shuffle the list")
    new_height: int = field(5, "uint32", 0, doc="resize to this height; 0: do not")
    new_width: int = field(6, "uint32", 0, doc="resize to this width; 0: do not")
    is_color: bool = field(7, "bool", True, doc="3 channels, else 1")
    mean_file: str = field(8, "string", "", doc="mean image")
    root_folder: str = field(9, "string", "", doc="in front of each path of the list")


@layer("HDF5Data")
class HDF5Data(DataLayer):
    """Datasets of HDF5 files that a list names, one output a dataset.

    Source: BVLC/caffe src/caffe/layers/hdf5_data_layer.cpp.
    """

    message = "hdf5_data_param"
    numbers = {"": 112}
    source: str = field(1, "string", "", doc="path of the list")
    batch_size: int = field(2, "uint32", 0, doc="samples at a time")
    shuffle: bool = field(3, "bool", False, doc="shuffle files and samples")


@layer("WindowData")
class WindowData(DataLayer):
    """Windows cut out of image files (R-CNN).

    Source: BVLC/caffe src/caffe/layers/window_data_layer.cpp.
    """

    message = "window_data_param"
    numbers = {"": 129}
    source: str = field(1, "string", "", doc="path of the list")
    scale: float = field(2, "float", 1.0, doc="older spelling of transform_param's")
    mean_file: str = field(3, "string", "", doc="older spelling of transform_param's")
    batch_size: int = field(4, "uint32", 0, doc="samples at a time")
    crop_size: int = field(5, "uint32", 0, doc="older spelling of transform_param's")
    mirror: bool = field(6, "bool", False, doc="older spelling of transform_param's")
    fg_threshold: float = field(7, "float", 0.5, doc="overlap that makes a window foreground")
    bg_threshold: float = field(8, "float", 0.5, doc="overlap below which a window is background")
    fg_fraction: float = field(9, "float", 0.25, doc="share of foreground windows")
    context_pad: int = field(10, "uint32", 0, doc="pixels around a window")
    crop_mode: str = field(11, "string", "warp", doc="warp or square")
    cache_images: bool = field(12, "bool", False, doc="keep all images in memory")
    root_folder: str = field(13, "string", "", doc="in front of each path of the list")


@layer("MemoryData")
class MemoryData(DataLayer):
    """Arrays in memory: data (batch_size, channels, height, width) and labels (batch_size,).

    Source: BVLC/caffe src/caffe/layers/memory_data_layer.cpp.
    """

    message = "memory_data_param"
    numbers = {"": 119}
    batch_size: int = field(1, "uint32", 0, doc="samples at a time")
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
    """Frames of a camera or a video file (SSD).

    Source: weiliu89/caffe (ssd) src/caffe/layers/video_data_layer.cpp.
    """

    message = "video_data_param"
    numbers = {"ssd": 207}
    video_type: str = field(1, Enum("WEBCAM", "VIDEO"), "WEBCAM", doc="where the frames come from")
    device_id: int = field(2, "int32", 0, doc="which camera")
    video_file: str = field(3, "string", "", doc="path of the video")
    skip_frames: int = field(4, "uint32", 0, doc="frames to skip between two")
