"""What the other rooms know of a native kernel of a layer type; `kernels/` has the implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from anylayer.network import Array, DType, Network, Node, TensorType

if TYPE_CHECKING:
    from anylayer.layer.registry import Definition


class NativeProgram(Protocol):
    """Computes a layer."""

    def __call__(self, inputs: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Array]:
        """Return one array per output. An array in `out` is written to and returned for its output."""


class NativeNode(Protocol):
    """An instance of a native layer type for one node and one set of input types.

    `outputs` are the types of its outputs, `internals` those of the arrays that it works in. `configuration`, as
    text, says how it runs, and `notes` say which conversions that costs.
    """

    outputs: list[TensorType]
    internals: list[TensorType]
    configuration: Any
    notes: list[str]

    def program(self, threads: int | None = None) -> NativeProgram:
        """Return a function that computes the layer with at most `threads` threads."""

    def forward(self, inputs: Sequence[Array | None]) -> list[Array]:
        """Compute the outputs."""

    def error(self, text: str) -> Exception:
        """Return a LayerError that names the library."""


class Kernel(Protocol):
    """A layer type that is computed natively. `origin` is the file that has it."""

    origin: str

    def __call__(
        self,
        node: Node,
        types: Sequence[TensorType],
        dtype: DType | None = None,
        outputs: Sequence[TensorType] | None = None,
    ) -> NativeNode:
        """Make an instance. `outputs` are the types that the NumPy class of the type gives, None where there is
        no class. Raises LayerError where the layer refuses the node."""


class LoadedKernel(Kernel, Protocol):
    """A layer type of a library or of a configuration of OpenCL kernels.

    `constants_are_blobs` says that constant inputs of its nodes are blobs, in formats that have no blobs.
    `states_shapes` says that it states the shapes of outputs itself.
    """

    constants_are_blobs: bool
    states_shapes: bool

    def within(self, network: Network, shapes: Definition | None = None) -> Kernel:
        """Return the kernel for nodes of a network. `shapes` is a user's class that has getMemoryShapes only."""
