"""transform_param: how an input is made from an image (Caffe's data_transformer.cpp)."""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import at, wording
from anylayer.network import Preprocess
from anylayer.protobuf.tree import Block
from anylayer.readers._arrays import to_float32
from anylayer.readers.caffe.mean import read_mean


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
