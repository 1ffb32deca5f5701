"""PyAV, the Python package of FFmpeg. This is the only file that imports it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from anylayer.errors import FileError
from anylayer.network import Array

_CODECS = ("libx264", "mpeg4")


class VideoReader:
    """The frames of a video as uint8 (H, W, 3) in BGR order, see libraries.video."""

    def __init__(self, path: str, container: str) -> None:
        try:
            self._file: Any = av.open(path, format=container or None, options={"protocol_whitelist": "file"})
        except (av.error.FFmpegError, ValueError, OSError) as error:
            raise FileError(f"the video cannot be opened: {_reason(error)}", path) from None
        if not self._file.streams.video:
            self.close()
            raise FileError("the file has no video", path)
        self._path = path
        self._stream = self._file.streams.video[0]
        self._stream.thread_type = "AUTO"
        context = self._stream.codec_context
        self.size: tuple[int, int] = (context.height or 0, context.width or 0)
        self.fps = float(self._stream.average_rate or 0)
        self.claimed = int(self._stream.frames or 0)

    def __iter__(self) -> Iterator[Array]:
        count = 0
        try:
            for frame in self._file.decode(self._stream):
                image = frame.to_ndarray(format="bgr24")
                turns = round(getattr(frame, "rotation", 0) / 90) % 4
                yield np.ascontiguousarray(np.rot90(image, turns)) if turns else image
                count += 1
        except (av.error.FFmpegError, ValueError) as error:
            raise FileError(
                f"the video cannot be decoded after frame {count}: {_reason(error)}", self._path
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class VideoWriter:
    """A video file that is written frame by frame: see libraries.video."""

    def __init__(self, path: Path, size: tuple[int, int], fps: float) -> None:
        self._file: Any = av.open(str(path), "w")
        codec = next(c for c in _CODECS if c in av.codecs_available)
        self._stream = self._file.add_stream(codec, rate=Fraction(fps).limit_denominator(1001))
        self._stream.height, self._stream.width = size
        self._stream.pix_fmt = "yuv420p"

    def write(self, image: Array) -> None:
        """Add a frame, uint8 (H, W, 3) in BGR order."""
        self._file.mux(self._stream.encode(av.VideoFrame.from_ndarray(image, format="bgr24")))

    def close(self) -> None:
        """Finish the file."""
        self._file.mux(self._stream.encode(None))
        self._file.close()


def _reason(error: Exception) -> str:
    """Return what FFmpeg says, without the number and the path."""
    return str(getattr(error, "strerror", None) or error).partition(": '")[0]
