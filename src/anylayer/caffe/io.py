"""caffe.io: images and their preprocessing, arrays as messages (BVLC/caffe python/caffe/io.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from anylayer.caffe.proto import caffe_pb2
from anylayer.errors import InputError, need, need_one_of, plural
from anylayer.libraries.pillow import stored_values
from anylayer.network import Array
from anylayer.ops._interpolation import positions, step_of

_LUMINANCE = (0.2125, 0.7154, 0.0721)
"""The weights of red, green and blue in gray (ITU-R BT.709, as scikit-image has them)."""


class ShapeError(InputError, ValueError):
    """An array does not have the expected shape."""


# ---- messages


def blobproto_to_array(blob: Any, return_diff: bool = False) -> Array:
    """Return the values of a BlobProto (its `diff` with `return_diff`) as float64, in the shape that it states."""
    values = np.array(blob.diff if return_diff else blob.data)
    older = any(blob.HasField(name) for name in ("num", "channels", "height", "width"))
    shape = (blob.num, blob.channels, blob.height, blob.width) if older else tuple(blob.shape.dim)
    size = int(np.prod(shape, dtype=object))
    need(size == values.size, f"a BlobProto of shape {shape} has {plural(values.size, 'value')}", ShapeError)
    return values.reshape(shape)


def array_to_blobproto(arr: Array, diff: Array | None = None) -> Any:
    """Return an array as a BlobProto, with `diff` as its gradients."""
    blob = caffe_pb2.BlobProto()
    blob.shape.dim.extend(arr.shape)
    blob.data.extend(arr.astype(float).flat)
    if diff is not None:
        need(diff.shape == arr.shape, f"diff must have shape {arr.shape}, got {diff.shape}", ShapeError)
        blob.diff.extend(diff.astype(float).flat)
    return blob


def arraylist_to_blobprotovector_str(arraylist: Iterable[Array]) -> bytes:
    """Return arrays as the bytes of a BlobProtoVector."""
    vector = caffe_pb2.BlobProtoVector()
    vector.blobs.extend([array_to_blobproto(array) for array in arraylist])
    return vector.SerializeToString()


arraylist_to_blobprotovecor_str = arraylist_to_blobprotovector_str
"""pycaffe's spelling."""


def blobprotovector_str_to_arraylist(text: bytes) -> list[Array]:
    """Return the arrays of a BlobProtoVector from its bytes."""
    vector = caffe_pb2.BlobProtoVector()
    vector.ParseFromString(text)
    return [blobproto_to_array(blob) for blob in vector.blobs]


def array_to_datum(arr: Array, label: int | None = None) -> Any:
    """Return an array (channels, height, width) as a Datum: uint8 as bytes, other types as floats."""
    need(arr.ndim == 3, f"a Datum has 3 axes (channels, height, width), got shape {arr.shape}", ShapeError)
    datum = caffe_pb2.Datum()
    datum.channels, datum.height, datum.width = arr.shape
    if arr.dtype == np.uint8:
        datum.data = arr.tobytes()
    else:
        datum.float_data.extend(arr.astype(float).flat)
    if label is not None:
        datum.label = label
    return datum


def datum_to_array(datum: Any) -> Array:
    """Return the array (channels, height, width) of a Datum, without its label: uint8, or float64."""
    need(not datum.encoded, "the Datum holds an encoded image; decode its data with an image library", InputError)
    values = np.frombuffer(datum.data, np.uint8) if datum.data else np.array(datum.float_data, float)
    shape = (datum.channels, datum.height, datum.width)
    need(values.size == np.prod(shape), f"a Datum of shape {shape} has {plural(values.size, 'value')}", ShapeError)
    return values.reshape(shape).copy()


# ---- images


def load_image(filename: str | Path | IO[bytes], color: bool = True) -> Array:
    """Return an image as float32 (H, W, 3) in RGB order, from 0 to 1; with color=False as gray, (H, W, 1).

    filename: a path, or an open file. Transparency is dropped. Raises FileError for a file that cannot be read.
    """
    stored = stored_values(Path(filename) if isinstance(filename, (str, Path)) else filename)
    most = {"b": 1.0, "u": float(np.iinfo(stored.dtype).max) if stored.dtype.kind == "u" else 1.0}
    image = (stored[..., :3] if stored.ndim == 3 else stored).astype(float) / most[stored.dtype.kind]
    if image.ndim == 3 and not color:
        image = image @ np.array(_LUMINANCE)
    if image.ndim == 2:
        image = np.repeat(image[:, :, None], 3 if color else 1, axis=2)
    return np.asarray(image, np.float32)


def resize_image(im: Array, new_dims: Sequence[int] | Array, interp_order: int = 1) -> Array:
    """Return an image (H, W, K) resized to `new_dims` (height, width) or (height, width, K), as float32.

    interp_order: 0 for the nearest pixel, 1 for linear interpolation. Without antialiasing, as pycaffe does it:
    with 1 or 3 channels pixel centers are aligned and the image is surrounded by its minimum (scikit-image up to
    0.14); with another number of channels the corner pixels are aligned (scipy.ndimage.zoom).
    """
    need(interp_order in (0, 1), f"interp_order must be 0 (nearest) or 1 (linear), got {interp_order}", InputError)
    height, width, *channels = (int(d) for d in new_dims)
    image = np.asarray(im, float)
    need(
        channels in ([], [image.shape[-1]]),
        f"the image has {image.shape[-1]} channels, got {new_dims}",
        InputError,
    )
    coordinates, outside = ("half_pixel", image.min()) if image.shape[-1] in (1, 3) else ("align_corners", 0.0)
    sizes = zip(image.shape, (height, width))
    rows, columns = (_matrix(size, target, coordinates, interp_order) for size, target in sizes)
    resized = np.einsum("ih,hwk,jw->ijk", rows, image - outside, columns, optimize=True)
    return np.asarray(resized + outside, np.float32)


def _matrix(size: int, target: int, coordinates: str, order: int) -> Array:
    """Return a matrix (target, size) that interpolates between pixels; beyond the image there are zeros."""
    at = positions(size, target, coordinates, step=step_of(size, target, coordinates, np.float64))
    before = np.floor(at + (0.5 if order == 0 else 0)).astype(int)
    part = at - before if order else np.zeros(target)
    matrix = np.zeros((target, size))
    for cells, weight in ((before, 1 - part), (before + 1, part)):
        inside = (cells >= 0) & (cells < size)
        matrix[np.nonzero(inside)[0], cells[inside]] += weight[inside]
    return matrix


def oversample(images: Sequence[Array], crop_dims: Sequence[int] | Array) -> Array:
    """Return ten crops of each image (H, W, K): its corners and its center, and then the same mirrored.

    crop_dims: (height, width) of the crops. All images have the same size. The result is float32 (10 * N, h, w,
    K).
    """
    height, width = (int(d) for d in crop_dims)
    full = np.asarray(images[0]).shape
    need(
        height <= full[0] and width <= full[1],
        f"crops of {height} x {width} pixels do not fit images of {full[0]} x {full[1]}",
        InputError,
    )
    corners = [(y, x) for y in (0, full[0] - height) for x in (0, full[1] - width)]
    center = (int(full[0] / 2 - height / 2), int(full[1] / 2 - width / 2))
    crops = []
    for image in images:
        five = [image[y : y + height, x : x + width] for y, x in [*corners, center]]
        crops += [*five, *(crop[:, ::-1] for crop in five)]
    return np.array(crops, np.float32)


class Transformer:
    """The preprocessing of images to inputs of a network.

    inputs: the shape of each input, by name, for example {"data": net.blobs["data"].data.shape}. Steps that are
    not set are left out.
    """

    def __init__(self, inputs: Mapping[str, Sequence[int]]) -> None:
        self.inputs = inputs
        self.transpose: dict[str, Sequence[int]] = {}
        self.channel_swap: dict[str, Sequence[int]] = {}
        self.raw_scale: dict[str, float] = {}
        self.mean: dict[str, Array] = {}
        self.input_scale: dict[str, float] = {}

    def _check(self, in_: str) -> None:
        need_one_of(in_, self.inputs, f"there is no input '{in_}'", "the inputs are")

    def preprocess(self, in_: str, data: Array) -> Array:
        """Return an image (H, W, K) as an input, float32: resized, transposed, with its channels in another order,
        times raw_scale, minus the mean, times input_scale, in this order. `data` is not changed."""
        self._check(in_)
        image = np.asarray(data, np.float32)
        size = tuple(self.inputs[in_][2:])
        if image.shape[:2] != size:
            image = resize_image(image, size)
        if in_ in self.transpose:
            image = image.transpose(self.transpose[in_])
        if in_ in self.channel_swap:
            image = image[np.asarray(self.channel_swap[in_])]
        if in_ in self.raw_scale:
            image = image * np.float32(self.raw_scale[in_])
        if in_ in self.mean:
            image = (image - self.mean[in_]).astype(np.float32)
        if in_ in self.input_scale:
            image = image * np.float32(self.input_scale[in_])
        return image

    def deprocess(self, in_: str, data: Array) -> Array:
        """Return an input as an image: the inverse of `preprocess`, except that it does not resize."""
        self._check(in_)
        image = np.array(data).squeeze()
        if in_ in self.input_scale:
            image = image / np.float32(self.input_scale[in_])
        if in_ in self.mean:
            image = image + self.mean[in_]
        if in_ in self.raw_scale:
            image = image / np.float32(self.raw_scale[in_])
        if in_ in self.channel_swap:
            image = image[np.argsort(self.channel_swap[in_])]
        if in_ in self.transpose:
            image = image.transpose(np.argsort(self.transpose[in_]))
        return image

    def set_transpose(self, in_: str, order: Sequence[int]) -> None:
        """Set the order of the axes, for example (2, 0, 1) for images (H, W, K)."""
        self._check(in_)
        axes = len(self.inputs[in_]) - 1
        need(len(order) == axes, f"the order must have {axes} axes, got {tuple(order)}", InputError)
        self.transpose[in_] = order

    def set_channel_swap(self, in_: str, order: Sequence[int]) -> None:
        """Set the order of the channels, for example (2, 1, 0) from RGB to BGR."""
        self._check(in_)
        channels = self.inputs[in_][1]
        need(len(order) == channels, f"the order must have {channels} channels, got {tuple(order)}", InputError)
        self.channel_swap[in_] = order

    def set_raw_scale(self, in_: str, scale: float) -> None:
        """Set the factor before the mean is subtracted, for example 255."""
        self._check(in_)
        self.raw_scale[in_] = scale

    def set_mean(self, in_: str, mean: Array) -> None:
        """Set the mean: one value per channel, or an array (K, H, W), which is resized to the input."""
        self._check(in_)
        channels, *size = self.inputs[in_][1:]
        mean = np.asarray(mean)
        need(mean.ndim in (1, 2, 3), f"the mean must have 1, 2 or 3 axes, got shape {mean.shape}", ShapeError)
        is_image = mean.ndim > 1
        mean = mean[None] if mean.ndim == 2 else mean
        fits = mean.shape[0] == channels or (is_image and mean.shape[0] == 1)
        need(fits, f"the mean must have {channels} channels, got {mean.shape[0]}", ShapeError)
        if is_image and mean.shape[1:] != tuple(size):
            mean = resize_image(mean.transpose(1, 2, 0), size).transpose(2, 0, 1)
        self.mean[in_] = mean if is_image else mean[:, None, None]

    def set_input_scale(self, in_: str, scale: float) -> None:
        """Set the factor after the mean is subtracted."""
        self._check(in_)
        self.input_scale[in_] = scale
