"""Videos through PyAV or OpenCV, whichever is installed.

Only files whose first bytes are those of a container of video are opened. So a text that names other files or
addresses, such as a playlist, is never given to FFmpeg.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from anylayer.errors import FileError, InputError, need
from anylayer.network import Array

WRITABLE = (".avi", ".mkv", ".mov", ".mp4")
"""The suffixes of the videos that can be written."""
_PIXELS = 1 << 26
"""The largest number of pixels of a frame."""
_CONTAINERS = (
    (b"\x1a\x45\xdf\xa3", 0, "matroska"),
    (b"ftyp", 4, "mov"),
    (b"moov", 4, "mov"),
    (b"mdat", 4, "mov"),
    (b"wide", 4, "mov"),
    (b"free", 4, "mov"),
    (b"AVI ", 8, "avi"),
    (b"FLV", 0, "flv"),
    (b"OggS", 0, "ogg"),
    (b"\x00\x00\x01\xba", 0, "mpeg"),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", 0, "asf"),
    (b"\x47", 0, "mpegts"),
)
"""The first bytes of containers, where they are, and FFmpeg's name of the container."""


class VideoReader(Protocol):
    """The frames of a video, uint8 (H, W, 3) in BGR order.

    `size` is (height, width), `fps` the frames per second and `claimed` the number of frames, as the file claims
    them, 0 where it does not. Iterating raises FileError if no frame can be decoded; else it skips damage.

    While it iterates, `lost` counts the frames that it could not decode, or that the file should have and does not
    have, `partial` counts the frames that it decoded only in part, and `skipped` gets a message for each picture
    file that it cannot read.
    """

    size: tuple[int, int]
    fps: float
    claimed: int
    lost: int
    partial: int
    skipped: list[str]

    def __iter__(self) -> Iterator[Array]: ...
    def close(self) -> None: ...


class VideoWriter(Protocol):
    """A video file that is written frame by frame."""

    def write(self, image: Array) -> None:
        """Add a frame, uint8 (H, W, 3) in BGR order, of the size that the file was opened with."""

    def close(self) -> None: ...


def _package() -> Any:
    """Return the module that wraps the installed package. Raises InputError where there is none."""
    if find_spec("av") is not None:
        from anylayer.libraries import pyav

        return pyav
    if find_spec("cv2") is not None:
        from anylayer.libraries import opencv

        return opencv
    raise InputError("videos need PyAV or OpenCV: pip install av, or pip install opencv-python")


def open_video(path: Path) -> VideoReader:
    """Open a video file. Raises FileError for one that is not a video, or has too many pixels."""
    container = _container(path)
    reader: VideoReader = _package().VideoReader(str(path), container)
    height, width = reader.size
    if not 0 < height * width <= _PIXELS:
        reader.close()
        raise FileError(f"its frames have {width}x{height} pixels; at most {_PIXELS} are read", str(path))
    if not math.isfinite(reader.fps) or not 0 < reader.fps <= 1000:
        reader.fps = 0.0
    return reader


def open_camera(number: int) -> VideoReader:
    """Open a camera. Raises InputError where there is none."""
    need(
        find_spec("cv2") is not None or find_spec("av") is None,
        "cameras need OpenCV: pip install opencv-python",
        InputError,
    )
    if find_spec("cv2") is None:
        _package()
    from anylayer.libraries import opencv

    return opencv.Camera(number)


def create_video(path: Path, size: tuple[int, int], fps: float) -> VideoWriter:
    """Return a writer for frames of (height, width), which must be even."""
    return _package().VideoWriter(path, size, fps)


def _container(path: Path) -> str:
    """Return FFmpeg's name of a file's container. Raises FileError for a file that does not begin like one."""
    if not path.exists():
        raise FileError("there is no such file", str(path))
    if not path.is_file():
        raise FileError("this is a pipe or a device, but an input must be a regular file", str(path))
    with path.open("rb") as file:
        head = file.read(189)
    for magic, offset, name in _CONTAINERS:
        if head[offset : offset + len(magic)] == magic and (name != "mpegts" or head[188:189] == magic):
            return name
    raise FileError(
        "this is not a video: it does not begin like AVI, FLV, Matroska, MP4, MPEG, Ogg or WMV", str(path)
    )
