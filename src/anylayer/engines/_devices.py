"""Names of devices: "cuda", "cuda:1", "gpu"."""

from __future__ import annotations

import re

from anylayer.errors import EngineError


def device_number(engine: str, device: str, kind: str) -> int:
    """Return the number of a device of this kind, 0 if the name has none. Raises EngineError for another kind."""
    match = re.fullmatch(rf"(?:{kind}|gpu)(?::(\d{{1,3}}))?", device)
    if match is None:
        raise EngineError(f"engine '{engine}' has no device '{device}'; its devices: cpu, {kind}, {kind}:1, ...")
    return int(match[1] or 0)
