"""Let OpenCV run the files that are written for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from anylayer.network import Array
from anylayer.source import Run, Source, Written
from anylayer.writers.caffe.layers import CaffeNet

_INSTALL = "pip install 'opencv-python-headless<5'"


def add_opencv_runtime(done: Written, net: CaffeNet, source: Source, lacking: str) -> None:
    """Add OpenCV to the runtimes that verify the file.

    Add a note with the reason instead where OpenCV is not installed, has no Caffe reader, or lacks layer types
    (`lacking`).
    """
    silence = next((layer for layer in net.layers if layer.type == "Silence"), None)
    if silence is not None:
        blobs = ", ".join(f"'{name}'" for name in silence.bottoms)
        done.notes.append(
            f"OpenCV lists '{silence.name}' among its outputs too, because no layer reads input {blobs}"
        )
    why = f"which has no layer {lacking}" if lacking else ""
    try:
        from anylayer.libraries import opencv
    except ImportError:
        why = why or f"which is not installed: {_INSTALL}"
    else:
        if not opencv.READS_CAFFE:
            why = why or f"whose version {opencv.VERSION} has no Caffe reader: {_INSTALL}"
        elif not why:
            *_, weights, text = done.files
            opener = _opener(opencv.open_caffe, text, weights, _low_rank_outputs(done, source))
            done.runtimes[f"OpenCV {opencv.VERSION}"] = opener
    if why:
        done.notes.append(f"the file was not run by OpenCV itself, {why}")


def _low_rank_outputs(done: Written, source: Source) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the outputs of rank 0 and 1, to which OpenCV adds axes."""
    outputs = zip(source.outputs, source.graph.outputs)
    return {done.outputs.get(n, n): tuple(v.shape) for n, v in outputs if len(v.shape) < 2}


def _opener(
    open_: Callable[[Path, Path], Run], text: Path, weights: Path, shapes: Mapping[str, tuple[int, ...]]
) -> Callable[[], Run]:
    """Return a function that opens the file. Outputs named in `shapes` are brought into these shapes."""

    def opener() -> Run:
        run = open_(text, weights)

        def run_and_reshape(inputs: Mapping[str, Array]) -> dict[str, Array]:
            results = run(inputs)
            fitting = {n: s for n, s in shapes.items() if n in results and results[n].size == math.prod(s)}
            return results | {n: results[n].reshape(s) for n, s in fitting.items()}

        return run_and_reshape

    return opener
