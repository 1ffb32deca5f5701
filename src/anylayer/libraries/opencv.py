"""OpenCV. OpenCV 3 and 4 read Caffe networks, and OpenCV 5 does not. This is the only file that imports it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from anylayer.errors import ConversionError, FileError, need
from anylayer.network import Array

VERSION: str = cv2.__version__
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")  # silent; read when FFmpeg is first used
os.environ.setdefault("OPENCV_FFMPEG_CAPTURE_OPTIONS", "protocol_whitelist;file")
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


# ---------------------------------------------------------------------- videos


class VideoReader:
    """The frames of a video as uint8 (H, W, 3) in BGR order, see libraries.video. FFmpeg prints nothing."""

    lost = partial = 0  # OpenCV does not report damage

    def __init__(self, source: str, container: str) -> None:
        self._path = source
        self._open(source, cv2.CAP_FFMPEG)

    def _open(self, source: str | int, backend: int) -> None:
        before = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
        try:
            self._capture = cv2.VideoCapture(source, backend)
        except cv2.error as error:
            raise FileError(f"the video cannot be opened: {_reason(error)}", self._path) from None
        finally:
            cv2.utils.logging.setLogLevel(before)
        if not self._capture.isOpened():
            raise FileError("the video cannot be opened: OpenCV cannot decode it", self._path)
        height, width = (self._capture.get(k) for k in (cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FRAME_WIDTH))
        self.skipped: list[str] = []
        self.size = (int(height), int(width))
        self.fps = float(self._capture.get(cv2.CAP_PROP_FPS))
        self.claimed = max(0, int(self._capture.get(cv2.CAP_PROP_FRAME_COUNT)))

    def __iter__(self) -> Iterator[Array]:
        count = 0
        while True:
            try:
                is_read, image = self._capture.read()
            except cv2.error as error:
                text = f"the video cannot be decoded after frame {count}: {_reason(error)}"
                raise FileError(text, self._path) from None
            if not is_read:
                return
            yield image
            count += 1

    def close(self) -> None:
        """Close the file."""
        self._capture.release()


class Camera(VideoReader):
    """A camera by its number. Raises FileError where it cannot be opened."""

    def __init__(self, number: int) -> None:
        self._path = f"camera {number}"
        try:
            self._open(number, cv2.CAP_ANY)
        except FileError:
            raise FileError("the camera cannot be opened", self._path) from None
        self.claimed = 0


class VideoWriter:
    """A video file that is written frame by frame: see libraries.video."""

    def __init__(self, path: Path, size: tuple[int, int], fps: float) -> None:
        codec = cv2.VideoWriter.fourcc(*("MJPG" if path.suffix.lower() == ".avi" else "mp4v"))
        self._writer = cv2.VideoWriter(str(path), codec, fps, size[::-1])
        need(self._writer.isOpened(), f"{path}: OpenCV {VERSION} cannot write this kind of video", FileError)

    def write(self, image: Array) -> None:
        """Add a frame, uint8 (H, W, 3) in BGR order."""
        self._writer.write(image)

    def close(self) -> None:
        """Finish the file."""
        self._writer.release()
