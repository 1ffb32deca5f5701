"""Why a row misses its target: what its own samples say, and what profiling has found for single rows."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

_NAMES = {"onnxruntime": "ORT", "openvino": "OpenVINO", "ncnn": "ncnn", "opencv": "OpenCV"}
_NOISE = 0.01
"""A difference below this share of the row's time is not listed."""

REASONS: dict[str, str] = {
    "hed": (
        "ncnn's threads sleep while they wait for each other, because anylayer asks for that; in the direct call "
        "they spin, which takes the processor from other programs"
    ),
    "detout_sparse_ssd300": (
        "OpenVINO does not check indices; anylayer clips them, and reports those that are out of range"
    ),
    "maxunpool_1x64x64x64_to_128": (
        "OpenVINO does not check indices; anylayer clips them, and reports those that are out of range"
    ),
    "host_call_openvino": "a network in two parts needs one more call of OpenVINO",
}
"""Row name -> what profiling has found for this row. Figures are left out: they hold for one machine."""


def reason(row: Row) -> str:
    """Return why a row misses its target, or "" where nothing was measured that says it."""
    found = REASONS.get(row["name"])
    return found if found is not None else _from_samples(row)


def _from_samples(row: Row) -> str:
    """Return what separates our call from the fastest direct call: the engine, bound arrays, the form of the
    network, and anylayer's own call; for a layer in the middle of a network, what it costs by hand. Only calls
    that were measured in the same mode of the machine are compared. "" where the row has no such calls."""
    hand, bare, kernel = (row["columns"].get(c, {}).get("seconds") for c in ("hand", "bare", "kernel"))
    if hand and bare and kernel:
        return f"an operator of the engine that is written by hand costs {_time(hand - bare - kernel)}"
    ours = row["columns"].get("anylayer", {})
    engine = ours.get("facts", {}).get("engine")
    columns = {name: _calls(row, name, ours.get("mode")) for name in _NAMES}
    own = columns.get(engine, {})
    times = [seconds for calls in columns.values() for seconds in calls.values()]
    if "seconds" not in ours or not own or not times:
        return ""
    unbound = {call: seconds for call, seconds in own.items() if not call.endswith("bound")}
    plain = unbound or own
    form = plain.get("simplified", plain.get("plain", min(plain.values())))
    steps = []
    best, total = min(times), ours["seconds"]
    name = next(n for n, calls in columns.items() if best in calls.values())
    if name != engine:
        steps.append((f"{_NAMES[name]} is faster than {_NAMES[engine]}{_chosen(ours)}", min(own.values()) - best))
    steps.append(("bound arrays save the direct call", min(plain.values()) - min(own.values())))
    other = min(plain, key=plain.__getitem__)
    steps.append((f"the form '{other}' saves the direct call", form - plain[other]))
    bound = "" if unbound else " with bound arrays"
    steps.append((f"anylayer's call adds to the direct one{bound}", total - form))
    listed = [f"{text} {_time(seconds)}" for text, seconds in steps if seconds > _NOISE * total]
    return "; ".join(listed)


def _calls(row: Row, column: str, mode: str | None) -> dict[str, float]:
    """Return the seconds of each way in which a column was called, if they were measured in this mode."""
    calls = row["columns"].get(column, {}).get("calls", {})
    return {name: call["seconds"] for name, call in calls.items() if call.get("mode") == mode}


def _chosen(ours: dict[str, Any]) -> str:
    """Return what "auto" measured when it chose the engine, in parentheses."""
    timings = ours["facts"].get("timings") or {}
    listed = ", ".join(f"{_NAMES.get(n, n)} {_time(s)}" for n, s in sorted(timings.items(), key=lambda t: t[1]))
    return f" (auto measured {listed}) by" if listed else " by"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"
