"""The list of operators is complete, and each operator has its parts."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from anylayer import ops
from anylayer.ops._operator import Operator
from tests.ops.harness import numbers


def test_type_checkers_see_every_operator() -> None:
    text = Path(ops.__file__).read_text("utf-8")
    assert re.findall(r"^    from anylayer\.ops\.(\w+) import \1 as \1$", text, re.MULTILINE) == ops.__all__


@pytest.mark.parametrize("name", ops.__all__)
def test_operator_has_a_meaning_a_form_and_a_docstring(name: str) -> None:
    operator = getattr(ops, name)
    assert isinstance(operator, Operator)
    assert operator._form is not None
    declared = inspect.signature(operator.meaning).parameters.values()
    arrays = [p.name for p in declared if p.kind is not p.KEYWORD_ONLY]
    named = {p.name: p.name for p in declared if p.kind is p.KEYWORD_ONLY}
    received = inspect.signature(operator._form).bind(*arrays, **named)  # raises TypeError where they do not fit
    assert sorted([*received.args, *received.kwargs.values()]) == sorted([*arrays, *named])
    assert operator.__doc__ and operator.__name__ == name


def test_meaning_does_not_change_its_input() -> None:
    x = numbers(1, 1, 4, 4)
    before = x.copy()
    outputs = [
        ops.max_pool(x, 2),
        ops.average_pool(x, 2, pads=1),
        ops.softmax(x),
        ops.relu(x),
        ops.resize(x, (4, 4)),
        ops.lrn(x, 3),
        ops.scatter_elements(x, np.zeros((1, 1, 1, 1), np.int64), np.ones((1, 1, 1, 1), np.float32)),
    ]
    for y in outputs:
        assert isinstance(y, np.ndarray)
        y += 1
    assert (x == before).all()
