"""Silence."""

from anylayer.layer import Registry
from tests.layers.harness import Case, ramp


def test_layer_has_no_outputs() -> None:
    bound = Case("Silence", {}, [ramp(2), ramp(3)], tops=0).bind()
    assert bound([ramp(2), ramp(3)]) == []


def test_is_a_sink() -> None:
    assert Registry.of("caffe").find("Silence")[0].cls.role == "sink"
