"""Input."""

import pytest

from anylayer.errors import LayerError
from anylayer.layer import Layer, Registry
from anylayer.network import Node, TensorType


def made(params: dict, outputs: int = 1) -> Layer:
    cls = Registry.of("caffe").find("Input")[0].cls
    instance = cls.__new__(cls)
    instance.prepare(Node("in", "Input", [], [f"top{i}" for i in range(outputs)], {"input_param": params}), None)
    return instance


def test_one_shape_is_used_for_all_outputs() -> None:
    assert made({"shape": {"dim": [1, 3]}}, 2).input_types() == [TensorType.of((1, 3))] * 2


def test_each_top_may_have_its_own_shape() -> None:
    types = made({"shape": [{"dim": [1, 3]}, {"dim": 2}]}, 2).input_types()
    assert types == [TensorType.of((1, 3)), TensorType.of((2,))]


def test_without_shape_the_type_is_unknown() -> None:
    assert made({}).input_types() == [None]


def test_role_is_input() -> None:
    assert made({}).role == "input"


def test_wrong_number_of_shapes_is_refused() -> None:
    with pytest.raises(LayerError, match="once for each of the 3 outputs, or never, got 2"):
        made({"shape": [{"dim": 1}, {"dim": 2}]}, 3).input_types()


def test_negative_size_is_refused() -> None:
    with pytest.raises(LayerError, match=r"dimensions must be 0 or more, got \(1, -1\)"):
        made({"shape": {"dim": [1, -1]}}).input_types()
