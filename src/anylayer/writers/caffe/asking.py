"""OpenCV itself, asked to run what is written for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from anylayer.network import Array
from anylayer.source import Run, Source, Written
from anylayer.writers.caffe.layers import CaffeNet

_INSTALL = "pip install 'opencv-python-headless<5'"


def ask_opencv(done: Written, net: CaffeNet, source: Source) -> None:
    """Have OpenCV run the file too, where its reader of Caffe networks is installed and knows all layers; say so
    where it does not run it."""
    unread = next((layer for layer in net.layers if layer.type == "Silence"), None)
    if unread is not None:
        blobs = ", ".join(f"'{name}'" for name in unread.bottoms)
        done.notes.append(f"OpenCV lists '{unread.name}' among its outputs too: no layer reads input {blobs}")
    known = net.dialect.only - source.user_types
    own = dict.fromkeys(layer.type for layer in net.layers if layer.type not in known)
    why = f"which knows nothing of {', '.join(own)}" if own else ""
    try:
        from anylayer.libraries import opencv
    except ImportError:
        why = why or f"which is not installed: {_INSTALL}"
    else:
        if not opencv.READS_CAFFE:
            why = why or f"which reads no Caffe in version {opencv.VERSION}: {_INSTALL}"
        elif not why:
            *_, weights, text = done.files
            opened = _opener(opencv.open_caffe, text, weights, _few_axes(done, source))
            done.runtimes[f"OpenCV {opencv.VERSION}"] = opened
    if why:
        done.notes.append(f"the file was not run by OpenCV itself, {why}")


def _few_axes(done: Written, source: Source) -> dict[str, tuple[int, ...]]:
    """The shapes of the outputs of fewer than two axes, to which OpenCV adds some."""
    known = zip(source.outputs, source.graph.outputs)
    return {done.outputs.get(n, n): tuple(v.shape) for n, v in known if len(v.shape) < 2}


def _opener(
    open_: Callable[[Path, Path], Run], text: Path, weights: Path, few: Mapping[str, tuple[int, ...]]
) -> Callable[[], Run]:
    def opened() -> Run:
        run = open_(text, weights)

        def shaped(inputs: Mapping[str, Array]) -> dict[str, Array]:
            found = run(inputs)
            same = {n: shape for n, shape in few.items() if n in found and found[n].size == math.prod(shape)}
            return found | {n: found[n].reshape(shape) for n, shape in same.items()}

        return shaped

    return opened
