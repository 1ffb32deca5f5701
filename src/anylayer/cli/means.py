"""Read means: the values of --mean, and mean images from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anylayer.cli.arrays import numeric, read_npy
from anylayer.errors import FileError, InputError, at, need
from anylayer.images.preprocess import with_mean
from anylayer.network import Array, Preprocess


def parse_mean(text: str) -> Array:
    """Return the value of --mean: 1 or 3 values (`104,117,123`), or a mean image (C, H, W) from a file."""
    try:
        values = [float(v) for v in text.split(",")]
    except ValueError:
        return _mean_file(Path(text))
    need(len(values) in (1, 3), f"--mean has 1 or 3 values, got {len(values)}", InputError)
    return np.array(values, np.float32)


def _mean_file(path: Path) -> Array:
    if path.suffix.lower() == ".npy":
        mean = numeric(read_npy(path), path).astype(np.float32)
    else:
        from anylayer.readers.caffe.preprocess import read_mean

        need(path.is_file(), f"{path}: there is no such file; a mean is B,G,R or a file", FileError)
        mean = read_mean(path)
    if mean.ndim == 1:
        return mean
    with at(str(path)):
        mean_values = with_mean(Preprocess(), mean).mean
    if mean_values is None:
        raise FileError("no mean")
    return mean_values


def with_mean_file(preprocess: Preprocess, model: Path) -> Preprocess:
    """Return the preprocessing with its mean file read, which is searched in the model's folder and below."""
    if preprocess.mean is not None:
        return preprocess
    named = Path(preprocess.mean_file)
    beside = model.parent / named.name
    tried = [beside] if named.is_absolute() or ".." in named.parts else [model.parent / named, beside]
    for path in tried:
        if path.is_file():
            with at(str(path)):
                return with_mean(preprocess, _mean_file(path))
    raise InputError(
        f"{model}: mean_file '{preprocess.mean_file}' is not in the model's folder. Give --mean FILE or "
        "--mean B,G,R"
    )
