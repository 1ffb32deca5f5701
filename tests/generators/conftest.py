"""Fixtures of other rooms that these tests use."""

from tests.kernels.conftest import opencl_device

__all__ = ["opencl_device"]
