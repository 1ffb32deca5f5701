"""OpenCV. OpenCV 3 and 4 read Caffe networks, and OpenCV 5 does not. This is the only file that imports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from anylayer.errors import ConversionError, need
from anylayer.network import Array

VERSION: str = cv2.__version__
_READ: Any = getattr(getattr(cv2, "dnn", None), "readNetFromCaffe", None)
READS_CAFFE = _READ is not None


def open_caffe(text: Path, weights: Path) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """Return a function that runs a Caffe network in OpenCV, from inputs by name to outputs by name.

    Raises ConversionError where OpenCV does not read the files, or does not run them.
    """
    try:
        net = _READ(str(text), str(weights))
        names = list(net.getUnconnectedOutLayersNames())
    except cv2.error as error:
        raise ConversionError(f"OpenCV {VERSION} does not read {text.name}: {_reason(error)}") from None

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        need(names, f"OpenCV {VERSION} finds no output in {text.name}", ConversionError)
        try:
            for name, array in inputs.items():
                net.setInput(np.ascontiguousarray(array, np.float32), name)
            return {name: np.array(array) for name, array in zip(names, net.forward(names))}
        except cv2.error as error:
            raise ConversionError(f"OpenCV {VERSION} does not run {text.name}: {_reason(error)}") from None

    return run


def _reason(error: Exception) -> str:
    """Return the text of OpenCV's exception, without the place in its sources."""
    text = " ".join(str(error).split())
    return text.split("error: ", 1)[-1]
