"""Networks of Darknet in RKNN, whose load_darknet reads them without the boxes at their ends."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

import anylayer
from anylayer.network import Array
from tests.layers.darknet.recorded import Recorded, recorded
from tests.opencv.test_darknet import WHOLE, save_whole

_IGNORED = {
    r"padding=": "padding without pad",
    r"dilation=": "dilation",
    r"(maxpool\]\nsize=[135]\nstride=2|stride_x=)": "the stride of a pool of size 1, 3 or 5, and stride_x",
    r"scale=": "scale",
    r"temperature=": "temperature",
    r"flipped=": "flipped",
    r"extra=": "extra",
    r"layers=.*\b0\b": "section 0 of a route, for which it takes the input",
    r"groups=[24]\ngroup_id": "groups of a route whose sections it cannot split",
    r"activation=(relu|swish|logistic|tanh)\n": "functions other than leaky, mish and linear",
}
"""Options that RKNN ignores without an error, as patterns of the .cfg file."""
TOLERANCE = 2e-3
"""The largest difference, relative to the largest value: RKNN computes several sections in float16, and a mean of
values that cancel."""


def rows(run: Callable[[Path], str]) -> Iterator[tuple[str, str]]:
    """Yield the name of each network and its result: whole ones, and those of single sections.

    run: runs run_rknn_darknet.py on a folder, and returns "" or why it fails.
    """
    cases = {name: case for name, case in recorded().items() if case.x.ndim == 4}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for whole, text in WHOLE.items():
            save_whole(folder, whole, plain(text))
        for number, case in enumerate(cases.values()):
            save(case, folder / str(number))
        failed = run(folder)
        for title, stem, text in (
            *((whole, whole, plain(text)) for whole, text in WHOLE.items()),
            *((name, str(number), case.cfg) for number, (name, case) in enumerate(cases.items())),
        ):
            yield title, f"FAILED: {failed}" if failed else judge(folder / stem, text)


def plain(text: str) -> str:
    """Return a network as RKNN reads it: without comments after values, and without sections of training."""
    text = re.sub(r"\[(dropout|cost)\]\n([a-z]+=.*\n)*", "", re.sub(r" +#.*", "", text))
    return text.replace("size=1\nstride=1\nfilters", "size=1\nstride=1\npad=0\nfilters")


def save(case: Recorded, path: Path) -> None:
    """Write the files of a recorded case."""
    for suffix, data in ((".cfg", case.cfg.encode()), (".weights", case.weights)):
        path.with_suffix(suffix).write_bytes(data)
    np.save(path.with_suffix(".npy"), case.x)


def judge(path: Path, text: str) -> str:
    """Compare what RKNN has computed with the maps of this network before the boxes."""
    reason = path.with_suffix(".txt")
    if reason.exists():
        return f"RKNN fails: {reason.read_text()[:100]}"
    error = difference(maps(path), dict(np.load(path.with_suffix(".npz"))))
    ignored = [what for pattern, what in _IGNORED.items() if re.search(pattern, text)]
    if error <= TOLERANCE:
        return f"equal: {error:.1e}"
    return f"RKNN ignores {', '.join(ignored)}" if ignored else f"DIFFERS: {error:.1e}"


def maps(path: Path) -> Mapping[str, Array]:
    """Return the outputs of a network in NumPy, and in place of boxes the maps from which they are decoded."""
    net = anylayer.read(path.with_suffix(".cfg"), path.with_suffix(".weights"))
    boxes = [node.inputs[0] for node in net.network.nodes if "anchors" in node.params["options"]]
    return net.compile("numpy", outputs=boxes or None)({"data": np.load(path.with_suffix(".npy"))})


def difference(expected: Mapping[str, Array], results: Mapping[str, Array]) -> float:
    """Return the largest difference, relative to the largest value; infinity where sizes differ."""
    worst = 0.0
    for want, result in zip(expected.values(), results.values(), strict=True):
        if want.size != result.size:
            return float("inf")
        worst = max(worst, float(np.abs(result.reshape(want.shape) - want).max() / np.abs(want).max()))
    return worst
