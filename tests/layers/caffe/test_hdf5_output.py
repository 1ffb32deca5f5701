"""HDF5Output."""

from anylayer.layer import Registry
from tests.layers.harness import Case, ramp


def test_layer_has_no_outputs() -> None:
    bound = Case("HDF5Output", {"file_name": "never-written.h5"}, [ramp(2), ramp(2)], tops=0).bind()
    assert bound([ramp(2), ramp(2)]) == []


def test_is_a_sink() -> None:
    assert Registry.of("caffe").find("HDF5Output")[0].cls.role == "sink"
