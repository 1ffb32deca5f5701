"""Each operator with a NumPy meaning of its own has a reason for it, which is true."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest

from anylayer.layers.onnx._call import MEANINGS, RECORDED
from tests.layers.onnx.meanings import LARGE, REASONS, WHY, WRONG, differs, has_other_dtypes, needs_sizes
from tests.layers.open_sizes import tried
from tests.readers.onnx.test_node_tests import WRITTEN_FOR

only_written_for = pytest.mark.skipif(
    not onnx.__version__.startswith(WRITTEN_FOR), reason=f"the expected results are those of onnx {WRITTEN_FOR}"
)


def operators(reason: str) -> list[str]:
    return REASONS[reason].split()


def test_every_meaning_has_one_reason() -> None:
    listed = [op for reason in WHY for op in operators(reason)]
    assert sorted(listed) == sorted(MEANINGS)
    assert {*operators("wrong")} == {*WRONG} and {*operators("slow")} == {*LARGE}


@pytest.mark.breadth
@only_written_for
def test_open_sizes_need_the_meaning() -> None:
    cases = tried("onnx")
    assert [op for op in operators("sizes") if not needs_sizes(op, cases[op])] == []


def test_dtypes_need_the_meaning() -> None:
    assert [op for op in operators("dtypes") if not has_other_dtypes(op)] == []


def test_shapes_and_limits_are_those_of_the_meaning() -> None:
    assert {*operators("shapes"), *operators("recorded")} == RECORDED
    limited = [op for op in operators("memory") if "_need_room" in MEANINGS[op].__code__.co_names]
    assert limited == operators("memory")


@only_written_for
@pytest.mark.parametrize("op", sorted(WRONG))
def test_reference_is_wrong(op: str) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        assert differs(op)
