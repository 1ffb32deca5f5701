"""Make the tables and docs/performance.md from the results only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import reasons
from benchmarks.results import Results, rows
from benchmarks.setup import Row
from benchmarks.table import Table

NETWORK, FRAMEWORK, PEER, OPERATOR, CUSTOM, COMPILED = 1.02, 1.03, 2.0, 1.05, 5.0, 1.0
READ, READY, OWNED, HUGE = 0.05, 0.6, 0.4, 1.0
IMPORT, CALL, HOST = 0.15, 30e-6, 10e-6
ENGINES = ("onnxruntime", "openvino", "ncnn")
COMPILERS = ("numba", "jax", "torch.compile", "pythran")
_HEADS = {"onnxruntime": "ORT", "openvino": "OpenVINO", "ncnn": "ncnn", "opencv": "OpenCV"}
Behind = tuple[str, str, str]
"""(part, row, what is missed)."""


def seconds(row: Row, column: str) -> float | None:
    """Return a column's figure in seconds, or None if it has none."""
    found = row["columns"].get(column, {})
    return found.get("seconds") if "error" not in found else None


def least(row: Row, columns: Sequence[str]) -> float | None:
    """Return the best figure among the columns."""
    return min((s for c in columns if (s := seconds(row, c)) is not None), default=None)


def ratio(a: float | None, b: float | None) -> float | None:
    """Return a / b, or None if one of them is missing."""
    return a / b if a is not None and b else None


def factor(value: float | None, missed: bool = False) -> str:
    """Return a ratio as text, marked if it misses its target."""
    return "-" if value is None else f"{value:.2f}" + (" !" if missed else "")


def cell(row: Row, column: str, unit: float) -> str:
    """Return a figure in units of `unit` seconds with the mode it was measured in, or a short reason why there is
    none.
    """
    found = row["columns"].get(column)
    if found is None:
        return "-"
    if "error" in found or "seconds" not in found:
        text = found.get("error", "")
        return "absent" if text == "peers absent" else "differs" if text.startswith("differs") else "-"
    mark = {"slow": " s", "disturbed": " d"}.get(found.get("mode", "fast"), "")
    value = found["seconds"] / unit
    return (f"{value:.1f}" if value >= 100 else f"{value:.3g}") + mark


def doubt(row: Row) -> str:
    """Return what to add to a statement about a row with disturbed figures."""
    disturbed = any(column.get("mode") == "disturbed" for column in row["columns"].values())
    return "; disturbed, measure again" if disturbed else ""


def modes(found: Sequence[Row]) -> str:
    """State in which modes the figures of these rows were measured, and how many samples were discarded."""
    kept = {"fast": 0, "slow": 0, "disturbed": 0}
    discarded = 0
    for row in found:
        for column in row["columns"].values():
            if "mode" in column:
                kept[column["mode"]] += 1
                discarded += column["discarded"]
    text = f"{kept['fast']} figures were measured in the machine's fast mode"
    if kept["slow"]:
        text += f", {kept['slow']} in its slow mode (s), because fast mode did not occur"
    if kept["disturbed"]:
        text += f", {kept['disturbed']} were disturbed in every round (d) and should be measured again"
    return f"{text}; {discarded} samples were discarded."


def _runs_on(row: Row) -> str:
    """Return the engines on which anylayer ran a row."""
    facts = row["columns"].get("anylayer", {}).get("facts", {})
    return " + ".join(_HEADS.get(e, e) for e in facts.get("parts") or [facts.get("engine", "-")])


def networks(results: Results) -> tuple[Table, list[Behind]]:
    """Return the table of the fourteen networks: each engine's figure, and the two ratios that have targets."""
    heads = ["network", "anylayer ms", "runs on", *(_HEADS[e] for e in ENGINES), "OpenCV"]
    heads += ["/ best of ORT, OV", "/ best direct", "OpenCV /"]
    table, behind = Table("Whole networks", heads), list[Behind]()
    found = rows(results, "networks")
    for row in found:
        ours = seconds(row, "anylayer")
        near = ratio(ours, least(row, ENGINES[:2]))
        best = ratio(ours, least(row, ENGINES))
        peer = ratio(seconds(row, "opencv"), ours)
        late = best is not None and best > NETWORK
        engines = ratio(seconds(row, "opencv"), least(row, ENGINES[:2]))
        close = peer is not None and peer < PEER <= (engines or 0)  # only if an engine can reach the target
        cells = [cell(row, c, 1e-3) for c in ("anylayer", *ENGINES, "opencv")]
        last = [factor(near), factor(best, late), factor(peer, close)]
        table.rows.append([row["name"], cells[0], _runs_on(row), *cells[1:], *last])
        end = doubt(row)
        if late:
            text = f"{best:.2f} x the fastest engine ({NETWORK}){end}"
            behind.append(("networks", row["name"], text))
        if close:
            behind.append(("networks", row["name"], f"only {peer:.2f} x faster than OpenCV ({PEER:g}){end}"))
    table.notes = [modes(found), *_notes(found)]
    return table, behind


def operators(results: Results) -> tuple[Table, list[Behind]]:
    """Return the table of the fifteen operators, each compared with the best cell of its row."""
    heads = ["operator", "anylayer us", "runs on", *(_HEADS[e] for e in ENGINES), "OpenCV", "/ best", "best"]
    table, behind = Table("Operators", heads), list[Behind]()
    found = rows(results, "operators")
    others = (*ENGINES, "opencv")
    for row in found:
        ours, best = seconds(row, "anylayer"), least(row, others)
        value = ratio(ours, best)
        late = value is not None and value > OPERATOR
        who = next((c for c in others if best is not None and seconds(row, c) == best), "-")
        how = row["columns"].get(who, {}).get("call", "")
        cells = [cell(row, c, 1e-6) for c in ("anylayer", *others)]
        name = f"{_HEADS.get(who, who)}: {how}" if how else "-"
        table.rows.append([row["name"], cells[0], _runs_on(row), *cells[1:], factor(value, late), name])
        if late:
            behind.append(("operators", row["name"], f"{value:.2f} x {name} ({OPERATOR}){doubt(row)}"))
    table.notes = [modes(found), *_notes(found)]
    return table, behind


def layers(results: Results) -> tuple[Table, list[Behind]]:
    """Return the table of custom layers, compared with the same classes in other tools."""
    columns = ("anylayer", "opencv", "openvino python", "onnxruntime", "openvino")
    heads = ["network", "anylayer ms", "OpenCV", "OpenVINO, Python ops", "ORT", "OpenVINO", "best peer /"]
    table, behind = Table("Custom layers", heads), list[Behind]()
    found = rows(results, "layers")
    for row in found:
        target = PEER if row["name"].startswith("hed") else CUSTOM
        value = ratio(least(row, ("opencv", "openvino python")), seconds(row, "anylayer"))
        late = value is not None and value < target
        table.rows.append([row["name"], *(cell(row, c, 1e-3) for c in columns), factor(value, late)])
        if late:
            text = f"only {value:.2f} x faster than the best peer ({target:g}){doubt(row)}"
            behind.append(("layers", row["name"], text))
    table.notes = [modes(found), *_notes(found)]
    return table, behind


def python(results: Results) -> tuple[Table, list[Behind]]:
    """Return the table of NumPy functions: as a layer and in a file, beside NumPy and compilers of NumPy code."""
    heads = ["function", "anylayer us", "runs on", "in a file", "NumPy", *COMPILERS, "/ fastest", "file / fastest"]
    table, behind = Table("NumPy functions", heads), list[Behind]()
    found = rows(results, "python")
    counts = {"anylayer": 0, "file": 0}
    behind_compilers = 0
    for row in found:
        best = least(row, ("numpy", *COMPILERS))
        values = {column: ratio(seconds(row, column), best) for column in counts}
        late = {column: value is None or value > COMPILED for column, value in values.items()}
        for column in counts:
            counts[column] += not late[column]
        compiled = ratio(seconds(row, "anylayer"), least(row, COMPILERS))
        behind_compilers += seconds(row, "anylayer") is None or (compiled is not None and compiled > COMPILED)
        cells = [cell(row, c, 1e-6) for c in ("anylayer", "file", "numpy", *COMPILERS)]
        last = [factor(values[column], late[column]) for column in counts]
        table.rows.append([row["name"], cells[0], _runs_on(row), *cells[1:], *last])
        if late["anylayer"]:
            value = values["anylayer"]
            text = "not recorded" if value is None else f"{value:.2f} x the fastest ({COMPILED:g})"
            behind.append(("python", row["name"], f"{text}{doubt(row)}"))
    clocks: dict[tuple[int, bool], list[str]] = {}
    for row in found:
        clocks.setdefault((row["threads"], row["processor"]), []).append(row["name"])
    facts = {c: f["version"] for r in found for c in COMPILERS if (f := r["columns"].get(c, {}).get("facts"))}
    table.notes = [
        "; ".join(map(_clock, clocks, clocks.values())) + ".",
        f"At most as slow as the fastest: {counts['anylayer']} of {len(found)}, {counts['file']} in a file. "
        f"Without NumPy: {len(found) - behind_compilers} of {len(found)}.",
        "-: the tool does not compile this function. " + ", ".join(f"{c} {v}" for c, v in facts.items()) + ".",
        modes(found),
    ]
    return table, behind


def _clock(how: tuple[int, bool], names: Sequence[str]) -> str:
    """Return what was measured of some functions. how: the threads, and whether the processor's time counts."""
    threads, processor = how
    return f"{'Processor time' if processor else 'Time'} with {threads} threads: {', '.join(names)}"


def native(results: Results) -> tuple[Table, list[Behind]]:
    """Return the table of one loop in three hosts, and of a layer in the middle of a network."""
    heads = ["Interp in C++", "anylayer us", "OpenCV", "OpenVINO", "/ faster"]
    table, behind = Table("Layers in C++", heads), list[Behind]()
    found = rows(results, "native")
    for row in found:
        value = ratio(seconds(row, "anylayer"), least(row, ("opencv", "openvino")))
        late = value is not None and value > OPERATOR
        cells = [cell(row, c, 1e-6) for c in ("anylayer", "opencv", "openvino")]
        table.rows.append([row["name"], *cells, factor(value, late)])
        if late:
            text = f"{value:.2f} x the faster of OpenCV and OpenVINO ({OPERATOR}){doubt(row)}"
            behind.append(("native", row["name"], text))
    table.notes = [modes(found)]
    return table, behind


def middle(results: Results) -> tuple[Table, list[Behind]]:
    """Return the table of a layer in the middle of a network: what it costs besides its kernel, as an operator of
    the engine, as one that is written by hand and called directly, and as a cut of the graph.
    """
    heads = [
        "a C++ layer between two convolutions",
        "network us",
        "without it",
        "kernel",
        "cost",
        "by hand",
        "as a cut",
    ]
    table, behind = Table("A layer in C++ in the middle of a network", heads), list[Behind]()
    found = rows(results, "middle")
    for row in found:
        whole, alone, kernel = (seconds(row, c) for c in ("whole", "alone", "kernel"))
        bare = seconds(row, "bare")
        if whole is None or alone is None or kernel is None:
            continue
        cost = whole - alone - kernel
        late = cost > HOST
        others = [
            "-" if other is None or bare is None else f"{(other - bare - kernel) * 1e6:.1f}"
            for other in (seconds(row, "hand"), seconds(row, "cut"))
        ]
        shown = f"{cost * 1e6:.1f}" + (" !" if late else "")
        cells = [cell(row, c, 1e-6) for c in ("whole", "alone", "kernel")]
        table.rows.append([row["name"], *cells, shown, *others])
        if late:
            text = f"a layer in C++ costs {cost * 1e6:.1f} us besides its kernel ({HOST * 1e6:g} us){doubt(row)}"
            behind.append(("middle", row["name"], text))
    table.notes = [modes(found)]
    return table, behind


def loading(results: Results) -> tuple[Table, list[Behind]]:
    """Return the table of large files: the seconds of each step, and the memory owned after the first frame."""
    heads = ["file", "engine", "read s", "compile s", "first frame s", "all s", "next frame ms"]
    heads += ["anonymous MB", "/ file", "peak RSS MB"]
    table, behind = Table("Large files, each in a fresh process", heads, left=2), list[Behind]()
    for row in rows(results, "loading"):
        for engine, found in row["columns"].items():
            if "steps" not in found or "error" in found:
                table.rows.append([row["name"], engine, found.get("error", "-")[:40], *["-"] * 7])
                continue
            steps = [found["steps"].get(s) for s in ("read", "compile", "first frame")]
            cells = ["-" if s is None else f"{s:.3f}" for s in (*steps, found["seconds"])]
            memory = [found["anonymous"] / 1e6, found["anonymous"] / row["bytes"], found["peak"] / 1e6]
            shown = [f"{memory[0]:.0f}", f"{memory[1]:.2f}", f"{memory[2]:.0f}"]
            frame = f"{found['steps']['second frame'] * 1e3:.1f}"
            table.rows.append([row["name"], engine, *cells, frame, *shown])
        behind += [("loading", row["name"], text) for text in _slow_to_load(row)]
    table.notes = [
        "The time of imports is not included; the files are in the page cache. Anonymous memory is what the "
        "process owns after the first frame, including imports; pages of mapped files count only in the peak."
    ]
    return table, behind


def _slow_to_load(row: Row) -> list[str]:
    found = row["columns"].get("anylayer onnxruntime", {})
    if "steps" not in found:
        return ["anylayer on ONNX Runtime: " + found.get("error", "not measured")]
    limit = HUGE if "GB" in row["name"] else READY
    missed = []
    if found["steps"]["read"] > READ and limit == READY:
        missed.append(f"read in {found['steps']['read']:.3f} s ({READ})")
    if found["seconds"] > limit:
        missed.append(f"first frame after {found['seconds']:.2f} s ({limit})")
    if found["anonymous"] > OWNED * row["bytes"]:
        missed.append(f"{found['anonymous'] / row['bytes']:.2f} x the file in anonymous memory ({OWNED})")
    best = seconds(row, "openvino")
    ours = seconds(row, "anylayer openvino")
    if (value := ratio(ours, best)) is not None and value > OPERATOR:
        missed.append(f"on OpenVINO {value:.2f} x its own best ({OPERATOR})")
    return missed


def overhead(results: Results) -> tuple[Table, list[Behind]]:
    """Return the table of anylayer's own costs."""
    table = Table("anylayer's own costs", ["what", "measured", "target"])
    behind: list[Behind] = []
    for row in rows(results, "overhead"):
        for what, value, target, unit in _costs(row):
            missed = value > target
            scale, places = (1, 3) if unit == "s" else (1e6, 1)
            text = f"{value * scale:.{places}f} {unit}"
            table.rows.append([what, text + (" !" if missed else ""), f"{target * scale:g} {unit}"])
            if missed:
                behind.append(("overhead", row["name"], f"{what}: {text} ({target * scale:g} {unit}){doubt(row)}"))
    table.notes = [modes(rows(results, "overhead"))]
    return table, behind


def _costs(row: Row) -> list[tuple[str, float, float, str]]:
    name = row["name"]
    if name == "import":
        first, second = (row["columns"][m]["seconds"] for m in ("anylayer", "numpy"))
        return [(f"import anylayer (NumPy's part is {second:.3f} s)", first, IMPORT, "s")]
    engine = name.rpartition("_")[2]
    if name.startswith("one_relu"):
        ours, own = seconds(row, "anylayer"), seconds(row, engine)
        if ours is None or own is None:
            return []
        return [
            (
                f"a call of a one-ReLU network, above {_HEADS[engine]}'s own {own * 1e6:.1f} us",
                ours - own,
                CALL,
                "us",
            )
        ]
    parts = [seconds(row, c) for c in ("with", "without", "forward")]
    if None in parts:
        return []
    return [(f"a host call on {_HEADS[engine]}", parts[0] - parts[1] - parts[2], HOST, "us")]


def tensorflow(results: Results) -> tuple[Table, list[Behind]]:
    """Return the table of networks of keras.applications, from frozen graphs."""
    return _frameworks(results, "tensorflow", "From TensorFlow's frozen graphs")


def keras(results: Results) -> tuple[Table, list[Behind]]:
    """Return the table of networks of keras.applications, from Keras' files."""
    return _frameworks(results, "keras", "From Keras' files")


def _frameworks(results: Results, part: str, title: str) -> tuple[Table, list[Behind]]:
    heads = ["network", "anylayer ms", "runs on", "tf2onnx, ORT", "OpenVINO, .pb", "/ best", "transpositions"]
    table, behind = Table(title, heads), list[Behind]()
    found = rows(results, part)
    for row in found:
        value = ratio(seconds(row, "anylayer"), least(row, ENGINES[:2]))
        late = value is not None and value > FRAMEWORK
        cells = [cell(row, c, 1e-3) for c in ("anylayer", *ENGINES[:2])]
        count = str(row.get("transpositions", "-"))
        table.rows.append([row["name"], cells[0], _runs_on(row), *cells[1:], factor(value, late), count])
        if late:
            text = f"{value:.2f} x the faster of tf2onnx with ORT and OpenVINO ({FRAMEWORK}){doubt(row)}"
            behind.append((part, row["name"], text))
    table.notes = [modes(found), *_notes(found)]
    return table, behind


PARTS: Mapping[str, Callable[[Results], tuple[Table, list[Behind]]]] = {
    "networks": networks,
    "operators": operators,
    "layers": layers,
    "python": python,
    "native": native,
    "middle": middle,
    "loading": loading,
    "overhead": overhead,
    "tensorflow": tensorflow,
    "keras": keras,
}


def _notes(found: Sequence[Row]) -> list[str]:
    return [f"{row['name']}: {row['note']}." for row in found if row.get("note")]


def tables(results: Results) -> tuple[list[Table], list[Behind]]:
    """Return the tables of all parts that have rows, and all rows that miss their targets."""
    made, behind = [], list[Behind]()
    for part, make in PARTS.items():
        if rows(results, part):
            table, missed = make(results)
            made.append(table)
            behind += missed
    return made, behind


def behind_table(behind: Sequence[Behind], results: Results) -> Table:
    """Return the table of what misses its target, with the reason if one was measured."""
    table = Table("Still behind", ["row", "by how much (target)", "reason"], left=3)
    by_name = {(row["part"], row["name"]): row for row in results["rows"]}
    for part, name, text in behind:
        row = by_name.get((part, name))
        table.rows.append([name, text, reasons.reason(row) if row is not None else ""])
    if not behind:
        table.rows.append(["nothing", "", ""])
    return table


def machine(results: Results) -> str:
    """Describe the machine in one sentence."""
    m: dict[str, Any] = results["machine"]
    kind = "virtual machine" if m["virtual"] else "machine"
    wide = ", AVX-512" if m["avx512"] else ""
    packages = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return (
        f"A {kind} with {m['cores']} cores of {m['processor']}{wide}, {m['memory_gb']:g} GB of memory, "
        f"{m['system']}, Python {m['python']}; {packages}."
    )


def document(results: Results) -> str:
    """Return the text of docs/performance.md."""
    made, behind = tables(results)
    days = sorted({row["day"] for row in results["rows"]})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}" if days else "never"
    parts = [table.markdown() for table in [*made, behind_table(behind, results)]]
    return "\n".join([_PREFACE.format(machine=machine(results), when=when), *parts])


def updated(page: str, results: Results) -> str:
    """Return the text of docs/performance.md with the tables of the parts that have rows in place of their older
    ones; new ones come before the last section, which lists what is behind.
    """
    made, behind = tables(results)
    head, *sections = page.split("\n## ")
    *sections, last = [f"## {section.rstrip()}\n" for section in sections]
    days = sorted({row["day"] for row in results["rows"]})
    for table in made:
        table.notes.append(f"Measured {' to '.join(dict.fromkeys((days[0], days[-1])))}. {machine(results)}")
        text = table.markdown().rstrip() + "\n"
        titles = [section.splitlines()[0] for section in sections]
        place = titles.index(f"## {table.title}") if f"## {table.title}" in titles else len(sections)
        sections[place : place + 1] = [text]
    measured = {f"| {row['name']} |" for row in results["rows"]}
    kept = [line for line in last.rstrip().splitlines() if not line.startswith(tuple(measured))]
    kept += behind_table(behind, results).markdown().splitlines()[4:] if behind else []
    return "\n".join([head.rstrip() + "\n", *sections, "\n".join(kept) + "\n"])


_PREFACE = """# Performance

`python -m benchmarks report --docs` writes this page from the results of `python -m benchmarks all` ({when});
benchmarks/README.md describes the method. All engines run side by side with 2 threads, in float32, one frame at a
time.

{machine}

`!` marks a figure that misses its target. "anylayer" is `net.compile(engine="auto")`, called as a user calls it.
The other engines are called directly, on the fastest known form of the network for each. OpenCV reads the Caffe
files with its own importer. Before the measurement, every engine's outputs were compared with anylayer's
(tolerance: 1e-4 of an output's largest value). Parts that were measured at another time or on another machine say
so in their last line.
"""
