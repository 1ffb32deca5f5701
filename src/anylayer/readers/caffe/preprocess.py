"""transform_param: how an input is made from an image (Caffe's data_transformer.cpp), and mean images."""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import FileError, at, need, wording
from anylayer.network import Array, Preprocess
from anylayer.protobuf.binary import MappedFile
from anylayer.protobuf.tree import Block
from anylayer.readers._arrays import to_float32
from anylayer.readers._recognize import describe
from anylayer.readers.caffe.wire import read_blob


def preprocess(layer: Block, folder: Path, notes: list[str]) -> Preprocess | None:
    """Return the Preprocess of an input or data layer, or None if it has no transform_param.

    A mean file is read if it is in `folder`, the network's folder, or below. Otherwise a note names it.
    """
    transform = layer.block("transform_param")
    if transform is None:
        return None
    means = transform.numbers("mean_value")
    scale = transform.entry("scale")
    gray = transform.entry("force_gray")
    steps = Preprocess(
        scale=1.0 if scale is None else transform.numbers("scale")[0],
        size=_size(transform),
        crop=transform.integer("crop_size"),
        mean_file=transform.text("mean_file"),
        source=f"transform_param of {transform.place()}",
        gray=gray is not None and gray.value in (1, "t"),
    )
    if means and steps.mean_file:
        raise transform.fail("transform_param must have only one of 'mean_file' and 'mean_value', got both")
    if means:
        steps.mean = to_float32(means)
    elif steps.mean_file:
        path = _file_in(folder, steps.mean_file)
        if path is None:
            remedy = wording("subtract the mean from pictures yourself", "give the mean with --mean")
            notes.append(f"the mean file '{steps.mean_file}' is not in the network's folder: " + remedy)
        else:
            with at(transform.place()):
                steps.mean = read_mean(path)
    return steps


def _size(transform: Block) -> tuple[int, int] | None:
    """Return the height and width to which SSD's resize_param stretches pictures, or None for its other modes."""
    resize = transform.block("resize_param")
    if resize is None:
        return None
    mode = resize.entry("resize_mode")
    size = resize.integer("height"), resize.integer("width")
    return size if min(size) > 0 and (mode is None or mode.value in ("WARP", 1)) else None


def _file_in(folder: Path, name: str) -> Path | None:
    """Return the file `name` in a folder, or else the file with the last part of `name`, or else None."""
    inside = folder.resolve()
    for candidate in (folder / name, folder / Path(name).name):
        try:
            real = candidate.resolve()
            if real.is_relative_to(inside) and real.is_file():
                return candidate
        except (OSError, ValueError):
            continue
    return None


def read_mean(path: Path) -> Array:
    """Return a mean image (C, H, W) as float32. Raise FileError if the file is not one."""
    if not path.is_file():
        raise FileError("there is no such mean file", str(path))
    with at(str(path)):
        what = describe(path)
        need(
            what in ("", "a Caffe blob (.binaryproto)"),
            f"this is {what}, not a mean image (.binaryproto)",
            FileError,
        )
        buffer = MappedFile(path)
        mean = read_blob(buffer, 0, buffer.size).array()
        need(mean.size > 0, "this is not a mean image: it has no values", FileError)
        while mean.ndim > 3 and mean.shape[0] == 1:
            mean = mean[0]
        need(
            mean.ndim == 3, f"a mean image must have shape (channels, height, width), got {mean.shape}", FileError
        )
        return mean
