"""Messages: places in front, nearest names."""

from __future__ import annotations

import doctest

import pytest

import anylayer.errors
import anylayer.network
from anylayer.errors import AnyLayerError, LayerError, at, nearest, need


def test_places_lead_to_the_rule() -> None:
    with (
        pytest.raises(LayerError, match=r"^f.prototxt: layer 'a' [(]B[)]: 3 is odd$"),
        at("f.prototxt"),
        at("layer 'a' (B)"),
    ):
        need(False, "3 is odd")


def test_a_place_is_put_once() -> None:
    error = AnyLayerError("m", "f")
    with pytest.raises(AnyLayerError, match=r"^f: m$"), at("f"):
        raise error


def test_nearest() -> None:
    assert nearest("poling", ["Pooling", "ReLU"]) == "; did you mean 'Pooling'?"
    assert nearest("xyz", ["Pooling"]) == ""


@pytest.mark.parametrize("module", [anylayer.errors, anylayer.network])
def test_the_examples_in_the_docstrings(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0 and result.failed == 0
