"""Why an array's values were asked for."""

from __future__ import annotations

from typing import Any

from anylayer.errors import TraceError
from anylayer.tracing.place import describe, refusal


def array_refusal(x: Any) -> TraceError:
    return refusal(
        f"np.asarray() or assignment needs the values of a traced array ({describe(x)}), which are known only when the network runs"
    )


def float_refusal(x: Any) -> TraceError:
    return refusal(
        f"float() needs the values of a traced array ({describe(x)}), which are known only when the network runs"
    )
