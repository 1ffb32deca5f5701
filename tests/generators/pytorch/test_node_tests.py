"""ONNX's own tests of its operators (onnx.backend.test), as PyTorch modules: right, or refused by name."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from tests.readers.onnx.test_node_tests import array, cases, excuses, wrong

__all__ = ["cases"]  # the fixture

pytestmark = pytest.mark.needs("torch", "safetensors")

PARTS = 8
_LEAST = 60
"""The number of tests of each part that must pass. The others are refused."""


def results(folder: Path, model: bytes, feed: dict[str, Any]) -> dict[str, Any]:
    """Generate the module of a model and run it. Raises AnyLayerError for what is refused."""
    import torch

    (folder / "model.onnx").write_bytes(model)
    net = anylayer.read(folder / "model.onnx")
    shapes = {n: v.shape for n, v in feed.items() if net.inputs[n] is None}
    net.generate("pytorch", folder / "project", shapes=shapes, inputs=feed, test=False, force=True)
    space: dict[str, Any] = {"__name__": "model", "__file__": str(folder / "project" / "model.py")}
    exec(compile((folder / "project" / "model.py").read_text(), "model.py", "exec"), space)
    found = space["load"]()(*(torch.from_numpy(np.array(feed[n])) for n in space["INPUTS"]))
    found = found if isinstance(found, tuple) else (found,)
    return {name: r.detach().numpy() for name, r in zip(space["OUTPUTS"], found, strict=True)}


def rtol(want: Any, case: Any) -> float:
    """Return the relative tolerance of a test. torch and NumPy round sums in float16 differently."""
    return 2e-2 if want.dtype == np.float16 else float(case.rtol)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.filterwarnings("ignore")
def test_module_matches_onnx_or_is_refused(part: int, cases: list[Any], tmp_path: Path) -> None:
    excused, ends, problems = excuses(), Counter[str](), []
    own = [c for c in cases if "_expanded" not in c.name and "numpy" not in excused.get(c.name, ())]
    for case in own[part::PARTS]:
        (inputs, outputs), *_ = case.data_sets
        feed = {i.name: array(v) for i, v in zip(case.model.graph.input, inputs)}
        want = {o.name: array(v) for o, v in zip(case.model.graph.output, outputs)}
        if not all(isinstance(v, (np.ndarray, np.generic)) for v in [*feed.values(), *want.values()]):
            continue
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                got = results(tmp_path, case.model.SerializeToString(), feed)
        except anylayer.AnyLayerError:
            ends["refused"] += 1
            continue
        differences = {n: wrong(got[n], np.asarray(w), rtol(w, case)) for n, w in want.items()}
        ends["right"] += 1
        if any(differences.values()):
            problems.append(f"{case.name}: {differences}")
    assert not problems, "\n".join(problems)
    assert ends["right"] >= _LEAST, ends
