"""The attributes of operators and their defaults are those of ONNX's schemas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer.graph import OPSET, Op
from anylayer.graph.attributes import ATTRIBUTES
from anylayer.libraries.onnx import helper, histories

NEWEST = 24
"""The newest operator set whose attributes the table has."""


def declared(op: str) -> dict[str, Any]:
    """Return the attributes of the schema that the graph's operator set has, then those that later sets add."""
    versions = [s for s in histories()[op] if s.since_version <= NEWEST]
    first = max((i for i, s in enumerate(versions) if s.since_version <= OPSET), default=0)
    found: dict[str, Any] = {}
    for one in versions[first:]:
        for name, attribute in one.attributes.items():
            proto = attribute.default_value
            value = helper.get_attribute_value(proto) if proto.type else None
            found.setdefault(name, value.decode() if isinstance(value, bytes) else value)
    return found


@pytest.mark.parametrize("op", sorted(ATTRIBUTES))
def test_defaults_are_those_of_the_schema(op: str) -> None:
    schema = declared(op)
    assert set(ATTRIBUTES[op]) == set(schema)
    for name, value in ATTRIBUTES[op].items():
        want = schema[name]
        if isinstance(want, float):
            assert np.float32(value) == np.float32(want), name
        elif isinstance(want, list):
            assert value == [v.decode() if isinstance(v, bytes) else v for v in want] or (
                value is None and not want
            )
        else:
            assert value == want, name
        assert type(value) is type(want) or value is None, name


def test_every_operator_that_a_graph_can_have_is_listed() -> None:
    not_recorded = ("Sequence", "String", "Random", "Optional", "If", "Loop", "Scan", "Constant", "Loss")
    old = {
        op for op, s in histories().items() if s[0].since_version <= 21 and not s[-1].deprecated and declared(op)
    }
    missing = {op for op in old - set(ATTRIBUTES) if not any(word in op for word in not_recorded)}
    assert missing == {"Bernoulli", "CastLike", "ImageDecoder", "Multinomial", "RegexFullMatch", "TfIdfVectorizer"}


def test_operator_returns_its_attribute_or_the_default() -> None:
    assert Op("LeakyRelu", [], [], {"alpha": 0.5})["alpha"] == 0.5
    assert Op("LeakyRelu", [], [])["alpha"] == 0.01
    assert Op("Transpose", [], [])["perm"] is None


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (Op("LeakyRelu", [], [], {}), "LeakyRelu has no attribute 'slope'"),
        (Op("Add", [], [], {}), "Add has no attribute 'slope'"),
        (Op("LeakyRelu", [], [], {}, domain="mine"), "LeakyRelu has no attribute 'alpha'"),
    ],
)
def test_unknown_attribute_is_refused(op: Op, message: str) -> None:
    with pytest.raises(KeyError, match=message):
        op[message.split("'")[1]]
