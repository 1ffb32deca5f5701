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
_HIDDEN = ("mpeg4", "vp8")
"""Codecs whose packets may have no frame that is shown."""
_HOLE = 1024
"""The smallest number of bytes between two packets of a Matroska, AVI or FLV file that cannot be headers alone."""


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
        self._container = container
        self._stream = self._file.streams.video[0]
        self._stream.thread_type = "AUTO"
        context = self._stream.codec_context
        if context is None:
            self.close()
            raise FileError("the codec of the video is not known", path)
        self.size: tuple[int, int] = (context.height or 0, context.width or 0)
        self.fps = float(self._stream.average_rate or 0)
        self.claimed = int(self._stream.frames or 0)
        self.lost = self.partial = 0
        self.skipped: list[str] = []

    def __iter__(self) -> Iterator[Array]:
        seen = _Seen(self._stream.index)
        count, reason, first = 0, "", 0
        for packet in self._packets(seen):
            try:
                frames = packet.decode()
            except av.error.FFmpegError as error:
                self.lost += 1
                reason = reason or _reason(error)
                continue
            for frame in frames:
                first = first if count else frame.pts or 0
                self.partial += frame.is_corrupt
                yield self._image(frame, count)
                count += 1
        if reason and not count:
            raise FileError(f"the video cannot be decoded after frame 0: {reason}", self._path)
        whole = self._container in ("flv", "matroska", "mov") and self._stream.codec_context.name not in _HIDDEN
        undecoded = sum(time >= first for time in seen.times) - count if whole else 0
        self.lost = max(self.lost, undecoded) + (seen.interrupted() or self._missing(seen))

    def _packets(self, seen: _Seen) -> Iterator[Any]:
        """Yield the packets of the video, up to the place where the file cannot be read any further."""
        try:
            for packet in self._file.demux():
                seen.add(packet)
                if packet.stream_index == self._stream.index:
                    yield packet
        except av.error.FFmpegError:
            self.lost += 1

    def _image(self, frame: Any, count: int) -> Array:
        try:
            image = frame.to_ndarray(format="bgr24")
        except (av.error.FFmpegError, ValueError) as error:
            raise FileError(
                f"the video cannot be decoded after frame {count}: {_reason(error)}", self._path
            ) from None
        turns = round(getattr(frame, "rotation", 0) / 90) % 4
        return np.ascontiguousarray(np.rot90(image, turns)) if turns else image

    def _missing(self, seen: _Seen) -> int:
        """Return about how many frames the file should have, by its duration and rate, for which it has no packet.

        A variable rate alone is not damage: the file also ends early, or has bytes that are not read.
        """
        end = float(self._file.duration or 0) / av.time_base
        if self._container == "avi" and self.fps:  # FFmpeg computes the duration of a truncated file by its size
            end = max(end, self.claimed / self.fps)
        is_short = (end - seen.end) * self.fps >= 1.5
        if not is_short and not (seen.hole >= _HOLE and self._container in ("avi", "flv", "matroska")):
            return 0
        first, last = (float(f(seen.times, default=0) * self._stream.time_base) for f in (min, max))
        missing = round((end - first if is_short else last - first) * self.fps) + (not is_short) - seen.packets
        return missing if missing > 1 else int(self._container == "matroska")  # AVI may begin with an empty frame

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Seen:
    """What the packets of a file say: the times of those of the video, in units of its time base, their number,
    whether FFmpeg marks each as corrupt, the end of the last packet in seconds, and the largest number of bytes
    between two packets."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self.times: list[int] = []
        self._corrupt: list[bool] = []
        self._decoding: list[int] = []
        self.packets = self.hole = self._position = 0
        self.end = 0.0

    def add(self, packet: Any) -> None:
        """Count a packet. The last one of a stream is empty and has no time."""
        time = packet.dts if packet.pts is None else packet.pts
        if time is None:
            return
        self.end = max(self.end, float((time + (packet.duration or 0)) * packet.time_base))
        if packet.pos is not None and packet.pos >= 0:
            self.hole = max(self.hole, packet.pos - (self._position or packet.pos))
            self._position = max(self._position, packet.pos)
        self._position += packet.size
        if packet.stream_index == self._stream:
            self.packets += 1
            self._corrupt.append(bool(packet.is_corrupt))
            self._decoding.append(time if packet.dts is None else packet.dts)
            if packet.size and not packet.is_discard:
                self.times.append(time)

    def interrupted(self) -> int:
        """Return about how many frames are missing beside corrupt packets.

        FFmpeg marks a packet of MPEG-TS if the counters of its parts have a gap. The missing frames follow this
        packet or the next one.
        """
        steps = np.diff(self._decoding)
        usual = float(np.median(steps)) if len(steps) else 0.0
        beside = [any(self._corrupt[max(0, i - 1) : i + 2]) for i in range(len(steps))]
        return sum(max(0, round(step / usual) - 1) for step in steps[beside].tolist()) if usual > 0 else 0


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
