"""anylayer run on videos, image sequences and cameras, with each of the packages that decode them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from anylayer.cli.video import ahead, behind
from anylayer.errors import FileError, InputError
from anylayer.libraries import video
from anylayer.network import Array

from .conftest import Run

FRAMES = 8
RUN = ["run", "net.prototxt", "-l", "layers.py", "-e", "onnxruntime", "--blob", "flat"]


@pytest.fixture(params=["av", "cv2"])
def package(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hide the other package that decodes videos."""
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    monkeypatch.setattr(video, "find_spec", lambda name: find_spec(name) if name == request.param else None)
    return str(request.param)


def pictures(height: int = 32, width: int = 48) -> list[Array]:
    """Return frames that get brighter from black on, in one color each."""
    return [np.full((height, width, 3), (i * 30, i * 20, i * 10), np.uint8) for i in range(FRAMES)]


def film(path: Path, frames: list[Array], fps: float = 10) -> None:
    """Write a video with the package that is not hidden."""
    writer = video.create_video(path, frames[0].shape[:2], fps)
    for frame in frames:
        writer.write(frame)
    writer.close()


def read_back(path: Path) -> tuple[video.VideoReader, list[Array]]:
    reader = video.open_video(path)
    frames = list(reader)
    reader.close()
    return reader, frames


def test_video_is_written_and_read(package: str, tmp_path: Path) -> None:
    film(tmp_path / "a.mp4", pictures(), 12.5)
    reader, frames = read_back(tmp_path / "a.mp4")
    assert (reader.size, reader.fps, len(frames)) == ((32, 48), 12.5, FRAMES)
    np.testing.assert_allclose(frames, pictures(), atol=6)  # 8-bit YUV and a lossy codec


def test_run_prints_a_line_per_frame(package: str, small: Path, anylayer_command: Run) -> None:
    film(small / "clip.mp4", pictures())
    done = anylayer_command(*RUN, "-i", "clip.mp4", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(f["frame"], f["time"]) for f in found] == [(i, i / 10) for i in range(FRAMES)]
    blue = [i * 30 * 0.5 / 255 for i in range(FRAMES)]  # flat is the first channel, halved, of 255
    np.testing.assert_allclose([f["outputs"]["flat"]["mean"] for f in found], blue, atol=6 / 255)
    assert f"{FRAMES} frames, " in done.stderr and "frames per second" in done.stderr


def test_run_writes_the_drawn_results(package: str, small: Path, anylayer_command: Run) -> None:
    for i, frame in enumerate(pictures()):
        Image.fromarray(np.ascontiguousarray(frame[:, :, ::-1])).save(small / f"{i}.png")
    words = ["-i", "%d.png", "--size", "keep", "-o", "out.mp4", "--frames", "5", "--fps", "10"]
    done = anylayer_command(*RUN, *words)
    reader, frames = read_back(small / "out.mp4")
    assert (reader.size, reader.fps, len(frames)) == ((32, 48), 10, 5)
    gray = [round(i * 30 * 0.5) for i in range(5)]  # a map of values in 0..1, of which white is 1
    np.testing.assert_allclose([f.mean() for f in frames], gray, atol=6)  # as in test_video_is_written_and_read
    assert "wrote out.mp4: 5 frames of 48x32\n" in done.stderr and done.stdout == ""
    assert sorted(p.name for p in small.iterdir() if p.name.startswith(".")) == []


def test_pattern_and_folder_are_sequences(package: str, small: Path, anylayer_command: Run) -> None:
    (small / "frames").mkdir()
    for i in (2, 10, 1):
        Image.fromarray(np.full((5, 7, 3), i, np.uint8)).save(small / f"frames/f{i:03}.png")
    done = anylayer_command(*RUN, "-i", "frames/f%03d.png", "--size", "keep", "--json")
    means = [json.loads(line)["outputs"]["flat"]["mean"] for line in done.stdout.splitlines()]
    np.testing.assert_allclose(means, [n * 0.5 / 255 for n in (1, 2, 10)], rtol=1e-6)
    anylayer_command(*RUN, "-i", "frames", "--size", "keep", "-o", "out.mp4", "--fps", "5")
    reader, frames = read_back(small / "out.mp4")
    assert (reader.size, reader.fps, len(frames)) == ((6, 8), 5, 3)  # odd sides are extended


def test_frames_of_different_sizes_are_refused(package: str, small: Path, anylayer_command: Run) -> None:
    (small / "frames").mkdir()
    Image.new("RGB", (8, 6)).save(small / "frames/1.png")
    Image.new("RGB", (6, 6)).save(small / "frames/2.png")
    done = anylayer_command(*RUN, "-i", "frames", "--size", "keep", "-o", "out.mp4", status=1)
    assert done.stderr.endswith("out.mp4: frame 1 is 6x6, but the frames before it are 8x6\n")
    assert not (small / "out.mp4").exists()


def test_frames_are_written_to_a_folder(package: str, small: Path, anylayer_command: Run) -> None:
    film(small / "clip.mp4", pictures())
    anylayer_command(*RUN, "-i", "clip.mp4", "-o", "out/", "--frames", "2")
    assert sorted(p.name for p in (small / "out").iterdir()) == ["clip_000000.png", "clip_000001.png"]


PLAYLIST = b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n"
HOSTILE = {
    "text": b"this is no video",
    "empty": b"",
    "playlist": PLAYLIST,
    "concat": b"ffconcat version 1.0\nfile /etc/passwd\n",
    "sdp": b"v=0\no=- 0 0 IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n",
    "only a head": b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom",
    "noise in MP4": b"\x00\x00\x00\x18ftypmp42" + bytes(range(256)) * 20,
    "noise in Matroska": b"\x1a\x45\xdf\xa3" + bytes(range(256)) * 20,
    "noise in AVI": b"RIFF\xff\xff\xff\xffAVI LIST" + bytes(range(256)) * 20,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_video_is_refused(
    package: str, case: str, small: Path, anylayer_command: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    (small / "clip.mp4").write_bytes(HOSTILE[case])
    done = anylayer_command(*RUN, "-i", "clip.mp4", "-o", "out.mp4", status=1)
    assert done.stderr.startswith("clip.mp4: ") and done.stderr.count("\n") == 1
    assert capfd.readouterr().err == "" and not (small / "out.mp4").exists()


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_truncated_video_is_refused(package: str, share: float, small: Path, anylayer_command: Run) -> None:
    random = np.random.default_rng(0)
    film(small / "whole.mp4", [random.integers(0, 256, (64, 64, 3), np.uint8) for _ in range(FRAMES)])
    whole = (small / "whole.mp4").read_bytes()
    (small / "clip.mp4").write_bytes(whole[: int(share * len(whole))])  # the index is at the end
    done = anylayer_command(*RUN, "-i", "clip.mp4", "-o", "out.mp4", status=1)
    assert done.stderr.startswith("clip.mp4: the video cannot be opened: ") and not (small / "out.mp4").exists()


def test_video_of_an_unknown_codec_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="PyAV is not installed")
    film(tmp_path / "clip.mp4", pictures())
    whole = (tmp_path / "clip.mp4").read_bytes()
    (tmp_path / "clip.mp4").write_bytes(
        whole.replace(b"avc1", b"zzzz").replace(b"mp4v", b"zzzz").replace(b"esds", b"free")
    )
    with pytest.raises(FileError, match=r"clip\.mp4: the codec of the video is not known"):
        video.open_video(tmp_path / "clip.mp4")


def damage(path: Path, copy: Path, start: float, end: float) -> None:
    """Write a copy of a file in which the bytes between two shares of its length are noise."""
    data = bytearray(path.read_bytes())
    first, last = int(start * len(data)), int(end * len(data))
    data[first:last] = np.random.default_rng(1).bytes(last - first)
    copy.write_bytes(data)


@pytest.mark.needs("av")
@pytest.mark.parametrize(
    ("suffix", "case"),
    [
        *[(suffix, case) for suffix in (".mkv", ".avi", ".flv") for case in ("truncated", "noise in the middle")],
        (".ts", "noise in the middle"),
    ],
)
def test_damaged_video_is_processed_and_reported(
    suffix: str, case: str, small: Path, anylayer_command: Run
) -> None:
    random = np.random.default_rng(0)
    whole, clip = small / f"whole{suffix}", small / f"clip{suffix}"
    film(whole, [random.integers(0, 256, (64, 64, 3), np.uint8) for _ in range(40)])
    assert " could not be read" not in anylayer_command(*RUN, "-i", whole.name).stderr
    if case == "truncated":
        clip.write_bytes(whole.read_bytes()[: whole.stat().st_size * 6 // 10])
    else:
        damage(whole, clip, 0.4, 0.7)
    done = anylayer_command(*RUN, "-i", clip.name, "-o", "out.mp4", "--json", status=1)
    found = len(done.stdout.splitlines())
    line = done.stderr.splitlines()[-1]
    lost, total = map(int, re.findall(r"\d+", line)[:2])
    assert re.fullmatch(rf"clip{suffix}: \d+ of \d+ frames could not be read(, \d+ only in part)?", line)
    assert total - lost == found == len(read_back(small / "out.mp4")[1])
    assert 15 <= found <= 36 and 38 <= total <= 42  # the number of lost frames is computed from times


@pytest.mark.needs("av")
def test_joined_transport_streams_are_not_damage(tmp_path: Path) -> None:
    film(tmp_path / "a.ts", pictures())
    (tmp_path / "b.ts").write_bytes((tmp_path / "a.ts").read_bytes() * 2)
    reader, frames = read_back(tmp_path / "b.ts")
    assert (len(frames), reader.lost, reader.partial) == (2 * FRAMES, 0, 0)


@pytest.mark.needs("av")
def test_packets_that_the_decoder_drops_are_counted(small: Path, anylayer_command: Run) -> None:
    import av

    if "libx265" not in av.codecs_available:
        pytest.skip("this PyAV does not encode HEVC")
    random = np.random.default_rng(0)
    with av.open(str(small / "clip.mkv"), "w") as file:
        stream = file.add_stream("libx265", 10, options={"x265-params": "log-level=none"})
        stream.width = stream.height = 64
        images = [random.integers(0, 256, (64, 64, 3), np.uint8) for _ in range(FRAMES)]
        frames = [av.VideoFrame.from_ndarray(image) for image in images]
        file.mux([packet for frame in [*frames, None] for packet in stream.encode(frame)])
    with av.open(str(small / "clip.mkv")) as file:
        packet = bytes([packet for packet in file.demux(video=0) if packet.size][3])
    noise = packet[:4] + b"\xff" * (len(packet) - 4)  # the first bytes are the length
    (small / "clip.mkv").write_bytes((small / "clip.mkv").read_bytes().replace(packet, noise))
    done = anylayer_command(*RUN, "-i", "clip.mkv", "--json", status=1)
    lost = FRAMES - len(done.stdout.splitlines())
    assert lost > 0 and f"clip.mkv: {lost} of {FRAMES} frames could not be read" in done.stderr


def add_silence(file: Any, sound: Any, frames: int) -> None:
    """Write frames of 1024 samples without sound, at 48000 samples per second, to the end of a stream."""
    import av

    for i in range(frames):
        samples = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        samples.sample_rate, samples.pts = 48000, i * 1024
        file.mux(sound.encode(samples))
    file.mux(sound.encode(None))


@pytest.mark.needs("av")
def test_variable_rate_and_longer_sound_are_not_damage(tmp_path: Path) -> None:
    import av

    with av.open(str(tmp_path / "a.mkv"), "w") as file:
        stream, sound = file.add_stream("mpeg4", 25), file.add_stream("aac", 48000)
        stream.width, stream.height, stream.codec_context.time_base = 48, 32, Fraction(1, 1000)
        for image, time_ in zip(pictures(), (0, 40, 90, 700, 1400, 1440, 1500, 3000)):
            frame = av.VideoFrame.from_ndarray(image, format="bgr24")
            frame.pts, frame.time_base = time_, Fraction(1, 1000)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
        add_silence(file, sound, 300)  # 6.4 seconds
    reader, frames = read_back(tmp_path / "a.mkv")
    assert (len(frames), reader.lost, reader.partial) == (FRAMES, 0, 0)


@pytest.mark.needs("av")
def test_index_between_packets_of_avi_with_longer_sound_is_not_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import av

    from anylayer.libraries import pyav

    monkeypatch.setattr(pyav, "_HOLE", 0)  # the headers count as bytes that are not read
    with av.open(str(tmp_path / "a.avi"), "w") as file:
        stream, sound = file.add_stream("mpeg4", 25), file.add_stream("aac", 48000)
        stream.width, stream.height = 48, 32
        frames = [av.VideoFrame.from_ndarray(image) for image in pictures()]
        for i, frame in enumerate(frames):
            frame.pts, frame.time_base = i, Fraction(1, 25)
        file.mux([packet for frame in [*frames, None] for packet in stream.encode(frame)])
        add_silence(file, sound, 100)  # 2 seconds
    reader, images = read_back(tmp_path / "a.avi")
    assert (len(images), reader.lost, reader.partial) == (FRAMES, 0, 0)


@pytest.mark.parametrize("source", ["frames", "frames/f%03d.png"])
def test_bad_pictures_of_a_sequence_are_skipped(source: str, small: Path, anylayer_command: Run) -> None:
    (small / "frames").mkdir()
    for i in range(4):
        Image.new("RGB", (8, 6)).save(small / f"frames/f{i:03}.png")
    (small / "frames/f002.png").write_bytes(b"no picture")
    done = anylayer_command(*RUN, "-i", source, "--size", "keep", "-o", "out.mp4", status=1)
    assert f"skipped: {Path('frames/f002.png')}: this is not an image of a known format\n" in done.stderr
    assert done.stderr.endswith(f"{source}: 1 of 4 frames could not be read\n")
    assert len(read_back(small / "out.mp4")[1]) == 3


def test_sequence_without_a_readable_picture_writes_no_video(small: Path, anylayer_command: Run) -> None:
    for i in range(2):
        (small / f"f{i}.png").write_bytes(b"no picture")
    done = anylayer_command(*RUN, "-i", "f%d.png", "-o", "out.mp4", status=1)
    assert done.stderr.count("skipped: f") == 2 and done.stderr.endswith("f%d.png: no frame could be decoded\n")
    assert not (small / "out.mp4").exists()


def test_file_without_a_video_package_says_what_to_install(
    small: Path, anylayer_command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (small / "clip.mp4").write_bytes(HOSTILE["only a head"])
    monkeypatch.setattr(video, "find_spec", lambda name: None)
    done = anylayer_command(*RUN, "-i", "clip.mp4", status=1)
    assert done.stderr == "videos need PyAV or OpenCV: pip install av, or pip install opencv-python\n"


@pytest.mark.needs("cv2")
def test_camera_that_does_not_exist_is_refused(small: Path, anylayer_command: Run) -> None:
    done = anylayer_command(*RUN, "-i", "97", status=1)
    assert done.stderr.startswith("camera 97: the camera cannot be opened") and done.stderr.count("\n") == 1


class Webcam:
    """A mock of OpenCV's cameras. Ctrl-C is pressed after 8 frames."""

    def __init__(self, number: int, *more: Any) -> None:
        self.number, self.frames = number, iter(pictures())

    def isOpened(self) -> bool:
        return self.number == 3

    def get(self, what: int) -> float:
        return 0.0

    def read(self) -> tuple[bool, Array]:
        frame = next(self.frames, None)
        if frame is None:
            raise KeyboardInterrupt
        return True, frame

    def release(self) -> None:
        pass


@pytest.mark.needs("cv2")
def test_ctrl_c_ends_a_camera_and_keeps_its_video(
    small: Path, anylayer_command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anylayer.libraries import opencv

    monkeypatch.setattr(opencv.cv2, "VideoCapture", Webcam)
    done = anylayer_command(*RUN, "-i", "3", "--json", "-o", "out.mp4", "--fps", "5")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(f["frame"], f["time"]) for f in found] == [(i, i / 5) for i in range(FRAMES)]
    blue = [i * 30 * 0.5 / 255 for i in range(FRAMES)]
    np.testing.assert_allclose([f["outputs"]["flat"]["mean"] for f in found], blue, atol=1e-6)
    assert f"wrote out.mp4: {FRAMES} frames" in done.stderr
    monkeypatch.undo()
    assert len(read_back(small / "out.mp4")[1]) == FRAMES


@pytest.mark.needs("cv2")
def test_camera_stops_after_the_number_of_frames(
    small: Path, anylayer_command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anylayer.libraries import opencv

    monkeypatch.setattr(opencv.cv2, "VideoCapture", Webcam)
    done = anylayer_command(*RUN, "-i", "data=3", "--json", "--frames", "2")
    assert len(done.stdout.splitlines()) == 2 and "2 frames, " in done.stderr
    assert anylayer_command(*RUN, "-i", "4", status=1).stderr.startswith("camera 4: ")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("-i picture.png -o out.mp4", "a video is written for a video, a camera, a folder of images or a pattern"),
        ("-i missing.mp4", "missing.mp4: there is no such file"),
        ("-i nowhere/%d.png", "nowhere/%d.png: there is no such file"),
        ("-i frame%d.png", "no file has a name like frame%d.png"),
        ("-i clip.mp4 -o out.npy", "-o out.npy is one file, but a video has many frames"),
        ("-i clip.mp4 -o out.webm", "videos are written as .avi, .mkv, .mov, .mp4"),
        ("-i clip.mp4 -o {blob}.mp4", "a video has no placeholders; select an output with --blob"),
        ("-i clip.mp4 -i clip.mp4", "one input can be a video, got 2"),
        ("-i clip.mp4 --ray", "frames of a video run on this machine; leave out --ray"),
    ],
)
def test_wrong_use_is_refused(small: Path, anylayer_command: Run, words: str, text: str) -> None:
    (small / "clip.mp4").write_bytes(b"")
    assert text in anylayer_command(*RUN, *words.split(), status=1).stderr


def test_large_frames_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Huge:
        size, fps, claimed = (1 << 15, 1 << 15), 25.0, 0

        def __init__(self, *given: Any) -> None:
            pass

        def close(self) -> None:
            pass

    class Package:
        VideoReader = Huge

    monkeypatch.setattr(video, "_package", lambda: Package)
    (tmp_path / "a.mp4").write_bytes(HOSTILE["only a head"])
    with pytest.raises(FileError, match=r"32768x32768 pixels; at most 67108864 are read"):
        video.open_video(tmp_path / "a.mp4")


def test_ahead_keeps_the_order_and_raises_the_error() -> None:
    def work() -> Iterator[int]:
        yield from range(20)
        raise InputError("the end is broken")

    found = []
    with pytest.raises(InputError, match="the end is broken"):
        for i in ahead(work()):
            found.append(i)
    assert found == list(range(20))


def test_ahead_stops_its_thread_when_it_is_closed() -> None:
    made = []

    def work() -> Iterator[int]:
        for i in range(1000):
            made.append(i)
            yield i

    loading = ahead(work(), 2)
    assert next(loading) == 0
    loading.close()
    done = len(made)
    time.sleep(0.05)
    assert len(made) == done < 20


def test_behind_handles_all_items_and_raises_the_error() -> None:
    done: list[int] = []
    with behind(done.append) as put:
        for i in range(50):
            put(i)
    assert done == list(range(50))

    def fail(i: int) -> None:
        raise FileError(f"cannot write {i}")

    with pytest.raises(FileError, match="cannot write 0"), behind(fail) as put:
        for i in range(50):
            put(i)


def test_decoding_running_and_encoding_overlap() -> None:
    pause = 0.03

    def decode() -> Iterator[int]:
        for i in range(10):
            time.sleep(pause)
            yield i

    start = time.perf_counter()
    with behind(lambda i: time.sleep(pause)) as put:
        for i in ahead(decode()):
            time.sleep(pause)
            put(i)
    assert time.perf_counter() - start < 10 * 3 * pause * 0.75  # one after the other takes 30 pauses; together, 12
