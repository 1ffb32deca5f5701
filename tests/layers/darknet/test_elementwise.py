"""Tests of Darknet's sections that keep the shape of their input, and of its activations."""

from __future__ import annotations

from anylayer.layers.darknet._base import ACTIVATIONS

from .recorded import as_recorded, recorded, refuses

test_sections_match_the_recorded_results = as_recorded("activation", "dropout", "cost", "softmax")

test_groups_divide_values = refuses("[softmax]\ngroups=7\n", "groups=7 does not divide 384 values")
test_temperature_is_not_0 = refuses("[softmax]\ntemperature=0\n", "temperature must not be 0")
test_spatial_has_no_groups = refuses("[softmax]\nspatial=1\ngroups=2\n", "spatial needs groups=1, got 2")


def test_every_activation_is_recorded() -> None:
    texts = " ".join(case.cfg for case in recorded().values())
    assert not [name for name in ACTIVATIONS if f"activation={name}\n" not in texts]
