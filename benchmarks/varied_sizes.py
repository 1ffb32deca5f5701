"""python -m benchmarks.varied_sizes: measure pictures of many sizes against pictures of one size.

Each network runs on pictures whose sizes all differ, and in turn on pictures of one size with their mean area. The
ratio is the throughput in pixels of the first divided by that of the second. The pyramid is MTCNN's: twelve
sizes per frame, against a program for each of them. Engine `auto` may take other engines at many sizes than at one
size. Its line names both, and its ratio is the one that a user of `auto` gets.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tools.reference import REFERENCE

import anylayer
from anylayer.runtime.model import Model

Array = np.ndarray[Any, Any]
Size = tuple[int, int]
MODELS = REFERENCE / "models"
NETWORKS = {"det1": ("mtcnn_det1", (240, 320)), "hed": ("hed", (160, 240)), "ssd": ("mobilenet_ssd", (240, 320))}
"""A network's folder, and the mean size of its pictures."""
ENGINES = ("onnxruntime", "openvino", "auto")
_TURN = 10
"""Pictures or frames of one kind before it is the other kind's turn."""
_WARM = 12
"""Sizes that run before the measurement."""


@dataclass(frozen=True, slots=True)
class Result:
    """The seconds per megapixel at many sizes and at one, the MiB by which the process grew in the measurement,
    the most MiB that it held then, and how both ran."""

    name: str
    engine: str
    many: float
    one: float
    growth: float
    peak: float
    ways: str

    def __str__(self) -> str:
        return (
            f"{self.name:8} {self.engine:12} {self.many * 1e3:9.1f} {self.one * 1e3:9.1f} ms/Mpixel   "
            f"ratio {self.one / self.many:.2f}   memory {self.growth:+.0f} MiB, peak {self.peak:.0f} MiB   "
            f"{self.ways}"
        )


def read(folder: str) -> anylayer.api.Net:
    """Return a network of the reference data, with random weights where the folder has none."""
    weights = MODELS / folder / "weights.caffemodel"
    net = anylayer.read(MODELS / folder / "deploy.prototxt", weights if weights.is_file() else None)
    return net if weights.is_file() else net.fill()


def picture(size: Size) -> Array:
    """Return noise as a picture of this size."""
    return np.random.default_rng(sum(size)).standard_normal((1, 3, *size), np.float32)


def sizes_around(mean: Size, count: int) -> list[Size]:
    """Return so many different sizes, with sides from 0.7 to 1.3 times those of the mean size."""
    random = np.random.default_rng(0)
    found: dict[Size, None] = {}
    while len(found) < count:
        height, width = (int(side * random.uniform(0.7, 1.3)) for side in mean)
        found[height, width] = None
    return list(found)


def pyramid(frame: Size) -> list[Size]:
    """Return the twelve sizes of MTCNN's pyramid: each 0.709 times the one before."""
    return [(int(frame[0] * 0.709**i), int(frame[1] * 0.709**i)) for i in range(12)]


def resident() -> float:
    """Return the MiB of memory that the process holds."""
    gc.collect()
    text = Path("/proc/self/statm").read_text()
    return int(text.split()[1]) * 4096 / 2**20


def forget_peak() -> None:
    """Make the system forget the most memory that the process has held."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> float:
    """Return the most MiB of memory that the process has held since `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(found.split()[1]) / 2**10


def seconds_of(calls: Sequence[Callable[[], Any]]) -> float:
    """Return how long the calls take."""
    start = time.perf_counter()
    for call in calls:
        call()
    return time.perf_counter() - start


def ways(many: Model, *one: Model) -> str:
    """Return what runs many sizes, and what runs one size."""
    program = "one program" if many.open_sizes is not None else "a program per size"
    engines = dict.fromkeys("+".join(dict(m.parts)) or m.engine for m in one)
    return f"{program} on {many.engine}, one size on {', '.join(engines)}"


def folder_of_pictures(name: str, engine: str, count: int, threads: int) -> Result:
    """Measure a network on pictures of different sizes, which are made before each turn."""
    folder, mean = NETWORKS[name]
    net = read(folder)
    many, one = (net.compile(engine, shapes=None, threads=threads) for _ in range(2))
    sizes = sizes_around(mean, count + _WARM)
    for size in sizes[:_WARM]:
        many(picture(size))
    same = picture(mean)
    one(same)
    forget_peak()
    before, spent = resident(), [0.0, 0.0, 0.0, 0.0]
    for first in range(_WARM, len(sizes), _TURN):
        pictures = [picture(size) for size in sizes[first : first + _TURN]]
        spent[0] += seconds_of([lambda x=x: many(x) for x in pictures])
        spent[1] += sum(x[0, 0].size for x in pictures) / 1e6
        spent[2] += seconds_of([lambda: one(same)] * len(pictures))
        spent[3] += same[0, 0].size * len(pictures) / 1e6
    growth, how = resident() - before, ways(many, one)
    return Result(name, engine, spent[0] / spent[1], spent[2] / spent[3], growth, peak(), how)


def picture_pyramid(engine: str, frames: int, threads: int) -> Result:
    """Measure det1 on the twelve sizes of a frame, against a program for each of them."""
    net = read("mtcnn_det1")
    levels = [picture(size) for size in pyramid((480, 640)) if min(size) >= 12]
    own = [net.compile(engine, shapes={"data": x.shape}, threads=threads) for x in levels]
    many = net.compile(engine, shapes={"data": (1, 3, "H", "W")}, threads=threads)
    pixels = sum(x[0, 0].size for x in levels) / 1e6
    alone = [lambda m=m, x=x: m(x) for m, x in zip(own, levels)]
    together = [lambda x=x: many(x) for x in levels]
    forget_peak()
    before, spent = resident(), [0.0, 0.0]
    seconds_of([*alone, *together])
    turns = -(-frames // _TURN)  # the threads of the other kind's sessions wait actively for a while after a turn
    for _ in range(turns):
        for kind, calls in enumerate((together, alone)):
            seconds_of(calls)
            spent[kind] += seconds_of(calls * _TURN)
    growth, how = resident() - before, ways(many, *own)
    total = pixels * turns * _TURN
    return Result("pyramid", engine, spent[0] / total, spent[1] / total, growth, peak(), how)


def main() -> None:
    """Measure what the command line asks for, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.varied_sizes", description=__doc__)
    parser.add_argument("--pictures", type=int, default=500, metavar="N", help="pictures of different sizes [500]")
    parser.add_argument("--frames", type=int, default=40, metavar="N", help="frames of the pyramid [40]")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of each engine [2]")
    parser.add_argument("--only", action="append", choices=["pyramid", *NETWORKS], help="measure these only")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="measure these engines only")
    options = parser.parse_args()
    for engine in options.engine or ENGINES:
        for name in options.only or ["pyramid", *NETWORKS]:
            if name == "pyramid":
                print(picture_pyramid(engine, options.frames, options.threads), flush=True)
            else:
                print(folder_of_pictures(name, engine, options.pictures, options.threads), flush=True)


if __name__ == "__main__":
    main()
