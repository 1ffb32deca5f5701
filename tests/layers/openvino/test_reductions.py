"""Tests of reductions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openvino import opset15 as o15

from .harness import const, matches, noise, refuses

X = noise(1, 3, 8, 9)
CASES = {
    f"{name} {keep}": matches(
        lambda x, name=name, keep=keep: getattr(o15, f"reduce_{name}")(x, const([1, -1]), keep), X
    )
    for name in ("sum", "mean", "prod", "max", "min", "l1", "l2")
    for keep in (True, False)
}
CASES["and"] = matches(lambda x: o15.reduce_logical_and(x, const([1]), True), X > 0)
CASES["or"] = matches(lambda x: o15.reduce_logical_or(x, const([1]), False), X > 0)
CASES |= {
    f"cum_sum {exclusive} {reverse}": matches(lambda x, e=exclusive, r=reverse: o15.cum_sum(x, const(2), e, r), X)
    for exclusive in (True, False)
    for reverse in (True, False)
}
test_mean_rejects_integers = refuses(
    lambda x: o15.reduce_mean(x, const([0]), False), np.arange(4), text="the mean needs real numbers, got int64"
)


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
