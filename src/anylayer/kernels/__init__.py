"""Native kernels of layers: shared libraries written against the SDK in `anylayer/sdk`."""
