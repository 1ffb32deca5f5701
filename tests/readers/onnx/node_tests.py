"""ONNX's own tests of its operators (onnx.backend.test)."""

from __future__ import annotations

import os
import pickle
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

HOME = "ANYLAYER_TESTS_HOME"
"""The variable that names the folder of a run of the tests, which all its processes share. conftest.py sets it."""


@cache
def node_tests() -> list[Any]:
    """Return ONNX's tests of single operators.

    onnx computes their results while it loads them, which takes 12 s of processor time. The first process of a run
    saves them for the others.
    """
    home = os.environ.get(HOME)
    saved = Path(home) / "node_tests.pickle" if home else None
    if saved is not None and saved.exists():
        kept: list[Any] = pickle.loads(saved.read_bytes())
        return kept
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        loaded = list(load_model_tests(kind="node"))
    if saved is not None:
        part = saved.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps(loaded))
        part.replace(saved)
    return loaded
