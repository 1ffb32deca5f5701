"""Print how many of the functions are traced, run as host calls and are refused, and why."""

from __future__ import annotations

from collections import Counter

from anylayer.errors import AnyLayerError, TraceError

from .case import Case, all_cases


def outcome(case: Case) -> tuple[str, str]:
    """Return "traced", "host call" or "refused", and the reason."""
    try:
        return "traced", f"{len(case.traced().ops)} operators"
    except TraceError as error:
        reason = str(error)
    except AnyLayerError as error:
        return "refused", str(error)
    zeros = [x * 0 for x in case.given(0)]  # the shapes of a host call are those for zeros
    try:
        case.want(zeros)
    except Exception as error:
        return "refused", f"raises {type(error).__name__} for zeros; {reason}"
    return "host call", reason


def main() -> None:
    totals: dict[str, Counter[str]] = {}
    for case in all_cases():
        kind, text = outcome(case)
        totals.setdefault(case.kind, Counter())[kind] += 1
        print(f"{case.kind:16} {case.name:32} {kind:10} {text.splitlines()[0][:140]}")
    for name, counts in {**totals, "total": sum(totals.values(), Counter())}.items():
        print(f"{name:16} {counts.total():4} {dict(counts)}")


if __name__ == "__main__":
    main()
