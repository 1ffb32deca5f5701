"""Tests of Dense and EinsumDense, and of the files of layer types."""

from anylayer.layer import Registry
from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("dense"))

test_dense_rejects_vector = rejects(
    "Dense",
    {"units": 3},
    inputs=[ramp(4)],
    text="takes an input of rank 2 or more, got (4,)",
    format="keras",
)
test_einsum_dense_rejects_input_of_other_rank = rejects(
    "EinsumDense",
    {"equation": "ab,bc->ac", "output_shape": 3},
    inputs=[ramp(1, 2, 4)],
    text="equation 'ab,bc->ac' does not fit an input (1, 2, 4)",
    format="keras",
)
test_einsum_dense_rejects_unknown_size = rejects(
    "EinsumDense",
    {"equation": "ab,bcd->ac", "output_shape": 3},
    inputs=[ramp(1, 2)],
    text="input and output_shape do not determine all sizes of 'bcd'",
    format="keras",
)
test_einsum_dense_rejects_bias_axis_outside_output = rejects(
    "EinsumDense",
    {"equation": "ab,bc->ac", "output_shape": 3, "bias_axes": "b"},
    inputs=[ramp(1, 2)],
    text="bias_axes 'b' must be among the axes 'ac' of the output",
    format="keras",
)


def test_layer_types_belong_to_files_of_layers() -> None:
    """The page docs/keras.md lists layer types by these files."""
    modules = {definition.layer_class.__module__ for definition in Registry.of("keras").definitions()}
    assert not [name for name in modules if name.rpartition(".")[2].startswith("_")]
