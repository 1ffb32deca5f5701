"""Statements of random programs whose loops, branches and sizes depend on data.

A statement is source code in which `V` stands for the number of the statement, so that its variables are its own.
"""

from __future__ import annotations

from .flow import SHARES, THRESHOLDS, Loop, Scope, indented


def loop(s: Scope) -> str | None:
    """Return a `for` over numbers, rows, positions or counts."""
    r, v = s.r, s.vector()
    rows = s.pick("f", 2)
    n = f"len({v})"
    m = s.mask_of(v)
    order = r.choice(
        [f"np.argsort(-{v}, kind='stable')", f"np.argsort({v}, kind='stable')[::-1]", f"np.where({m})[0]"]
    )
    same = rows if rows and "boxes" in s.values and rows == "boxes" and v == "scores" else None
    row = [f"{same}[i]"] if same else []
    at = Loop(s, [f"{v}[i]", "i", *([f"{same}[i, 0]"] if same else [])], row, "i", n)
    plain = Loop(s, ["e"], [])
    kind = r.randrange(15)
    if kind < 3:
        return at.text(f"for i in range({r.choice([n, n, f'{v}.shape[0]', f'min(3, {n})', '2', '3'])})")
    if kind < 5:
        return at.text(f"for i in {order}")
    if kind == 5:
        return plain.text(f"for e in {v}")
    if kind == 6:
        return plain.text(f"for e in {v}[{m}]")
    if kind == 7:
        return Loop(s, ["e", "i"], [], "i", n).text(f"for i, e in enumerate({v})")
    if kind == 8 and same:
        return Loop(s, ["e", "row[0]", "row[3]"], ["row"]).text(f"for row, e in zip({same}, {v})")
    if kind == 9 and rows:
        selected = s.mask_of(f"{rows}[:, {r.randrange(s.values[rows].shape[1])}]")
        return Loop(s, ["row[0]", "row[1]"], ["row"]).text(
            f"for row in {rows}[{selected}]", f"row = {rows}[0]" if r.random() < 0.2 else ""
        )
    if kind == 10:
        return at.text(f"for i in range(int({m}.sum()))")
    if kind == 11:
        return at.text(f"for i in range(len({v}[{m}]))")
    if kind == 12:
        return at.text(f"while i < {n}", "i = 0", last="i += 1").replace("continue", "pass")
    if kind == 13:
        return at.text(f"while i < {n} and {v}[i] > {s.threshold()}", "i = 0", last="i += 1").replace(
            "continue", "pass"
        )
    return at.text(f"for i in range({n} - 1, -1, -1)")


def greedy(s: Scope) -> str | None:
    """Return greedy NMS: an element is taken while any is left, and others are removed."""
    r = s.r
    rows = "boxes" if "boxes" in s.values else None
    v = r.choice(["scores", f"{rows}[:, {r.randrange(s.values[rows].shape[1])}]"]) if rows else "scores"
    before, own = [], "scores"
    b = rows
    if rows and r.random() < 0.25:
        before = [f"mV = {s.mask_of(v)}", f"bV, sV = {rows}[mV], {v}[mV]"]
        own, b, v = "sV", "bV", "sV"
    else:
        own = v
    back = r.random() < 0.3
    start = (
        [f"np.argsort({own}, kind='stable')", f"({own}).argsort(kind='stable')", f"np.arange(len({own}))"]
        if back
        else [
            f"np.argsort(-{own}, kind='stable')",
            f"({own}).argsort(kind='stable')[::-1]",
            f"np.flip(np.argsort({own}, kind='stable'))",
            f"np.arange(len({own}))",
            f"np.where({s.mask_of(own)})[0]",
            f"np.nonzero({s.mask_of(own)})[0]",
            f"np.flatnonzero({s.mask_of(own)})",
        ]
    )
    before.append(f"orderV = {r.choice(start)}")
    o = "orderV"
    heads = [f"while {o}.size > 0", f"while len({o})", f"while {o}.size", f"while len({o}) >= 1"]
    heads += [f"while {o}.shape[0] != 0", f"while 0 < len({o})", f"while not {o}.size == 0", "while True"]
    head = r.choice(heads)
    first = f"if {o}.size == 0:\n    break\n" if head == "while True" else ""
    i, rest = (f"{o}[-1]", f"{o}[:-1]") if back else (f"{o}[0]", f"{o}[1:]")
    named = r.random() < 0.7
    first += f"i = {i}" + (f"\nrest = {rest}" if named else "")
    largest = r.random() < 0.2
    if largest:
        k = r.choice([f"np.argmax({own}[{o}])", f"{own}[{o}].argmin()", f"({own}[{o}] * 2).argmax()"])
        gone = r.choice([f"np.delete({o}, k)", f"np.delete({o}, k, axis=0)", f"{o}[np.arange(len({o})) != k]"])
        first, named = first.partition("i = ")[0] + f"k = {k}\ni = {o}[k]\nrest = {gone}", True
    rest = "rest" if named else rest
    measure = [
        f"np.abs({own}[{rest}] - {own}[i])",
        f"{own}[i] - {own}[{rest}]",
        f"np.maximum({own}[{rest}], {own}[i])",
    ]
    if b:
        common = (
            f"np.maximum(0, np.minimum({b}[i, 2], {b}[{rest}, 2]) - np.maximum({b}[i, 0], {b}[{rest}, 0]))"
            f" * np.maximum(0, np.minimum({b}[i, 3], {b}[{rest}, 3]) - np.maximum({b}[i, 1], {b}[{rest}, 1]))"
        )
        area = f"np.maximum(({b}[{rest}, 2] - {b}[{rest}, 0]) * ({b}[{rest}, 3] - {b}[{rest}, 1]), 1)"
        measure += [common, f"{common} / {area}", f"{common} / {area}", f"{common} / {area}"]
        measure += [f"self.overlap({b}[i], {b}[{rest}])", f"self.overlap({b}[i], {b}[{rest}])"]
    chosen = r.choice(measure)
    t = r.choice(SHARES if "/" in chosen or "self" in chosen else THRESHOLDS)
    far, near = r.choice([("<=", ">"), ("<", ">=")])
    removed = f"np.where(ov {near} {t})[0]"
    kept = [f"{rest}[ov {far} {t}]", f"{rest}[np.where(ov {far} {t})[0]]", f"{rest}[~(ov {near} {t})]"]
    kept += [f"{rest}[np.logical_not(ov {near} {t})]", f"np.compress(ov {far} {t}, {rest})"]
    kept += [
        f"np.extract(ov {far} {t}, {rest})",
        f"np.delete({rest}, {removed})",
        f"{rest}[np.nonzero(ov {far} {t})]",
    ]
    if largest:
        pass
    elif back:
        kept += [f"np.delete({o}, np.concatenate(([len({o}) - 1], {removed})))"]
    else:
        kept += [f"{o}[np.where(ov {far} {t})[0] + 1]"]
        kept += [f"np.delete({o}, np.concatenate(([0], {removed} + 1)))"]
    last = f"ov = {chosen}\n{o} = {r.choice(kept)}"
    body = Loop(
        s, [f"{own}[i]", "i", *([f"{b}[i, 0]"] if b else [])], [f"{b}[i]"] if b else [], "i", f"len({own})"
    )
    keep = body.carried("keep", "[]", "[]", "list()")
    taken = [f"{keep}.append(i)"] * 5 + [f"{keep}.append(int(i))", f"{keep} += [i]", f"{keep} = {keep} + [i]"]
    taken += [f"{keep}.append({own}[i])"] * 2 + ([f"{keep}.append({b}[i])"] * 2 if b else [])
    chosen = r.choice(taken)
    first += f"\n{chosen}"
    more = []
    if r.random() < 0.35:
        more.append(f"if {o}.size == 1:\n    break")
    if r.random() < 0.25:
        more.append(f"if len({keep}) {r.choice(['==', '>='])} {r.choice('123')}:\n    break")
    if r.random() < 0.2:
        more.append(f"if {own}[i] {r.choice('<>')} {s.threshold()}:\n    break")
    if r.random() < 0.2:
        more.append(f"if {own}[i] < {s.threshold()}:\n    {o} = {rest}\n    continue")
    if r.random() < 0.35:
        more.append(body.step().replace("continue", "break"))
    steps = "\n".join([first, *more, last])
    results = [f"aV = np.array({keep})", f"aV = np.float32(len({keep}))", f"aV = np.array({keep}, np.float32)"]
    if "append(i)" in chosen or "[i]" in chosen:
        results += [f"aV = {own}[{keep}]", f"aV = {own}[np.array({keep}, dtype=np.int64)]"] * 2
        results += [f"aV = {b}[{keep}]", f"aV = {b}[{keep}[:2]]", f"aV = {b}[{keep}][:, :2] * 2"] * 2 if b else []
        results += [f"aV = {own}[{keep}]\ncV = aV[aV > {s.threshold()}]"]
    lines = [*before, *(f"{n} = {e}" for n, e in (body.start or {}).items())]
    return "\n".join([*lines, f"{head}:\n{indented(steps)}", r.choice(results)])


def pairs(s: Scope) -> str | None:
    """Return two nested loops with flags, or a loop that swaps the largest value to the front."""
    r = s.r
    v, t = s.vector(), r.choice(THRESHOLDS)
    n = f"min(len({v}), {r.choice('345')})"
    near = r.choice([f"{v}[j] - {v}[i] > {t}", f"abs({v}[i] - {v}[j]) <= {t}", f"{v}[j] == {v}[i]"])
    skip = r.choice(["goneV[i]", "goneV[i] == 1", f"goneV[i] or {v}[i] < {t}"])
    return r.choice(
        [
            f"goneV = np.zeros(len({v}), {r.choice(['bool', 'np.int32'])})\nkeepV = []\nfor i in range({n}):\n"
            f"    if {skip}:\n        continue\n    keepV.append(i)\n    for j in range(i + 1, {n}):\n"
            f"        if {near}:\n            goneV[j] = 1\naV = {v}[keepV]",
            f"goneV = np.zeros(len({v}), bool)\nfor i in range({n}):\n    if not goneV[i]:\n"
            f"        goneV[i + 1:] |= np.abs({v}[i + 1:] - {v}[i]) < {t}\naV = {v}[~goneV]",
            f"sV = {v}.copy()\nfor i in range({n}):\n    k = i + np.argmax(sV[i:])\n"
            f"    sV[i], sV[k] = sV[k], sV[i]\n    sV[i + 1:] = np.where(sV[i + 1:] > {t}, sV[i + 1:] - 0.5, "
            f"sV[i + 1:])\naV = sV[sV > {t}]",
            f"sV = {v}.copy()\nfor i in range({n}):\n    k = i + sV[i:].argmax()\n    t = sV[i].copy()\n"
            f"    sV[i] = sV[k]\n    sV[k] = t\n    if sV[i] < {t}:\n        break",
        ]
    )


def decoder(s: Scope) -> str | None:
    """Return a loop over steps that drops repetitions and blanks, as text recognition has it."""
    if "x" not in s.values:
        return None
    r = s.r
    best = r.choice(["np.argmax(x[t])", "x[t].argmax()", "int(np.argmax(x[t]))"])
    drop = r.choice(["k != prevV and k != 0", "k != 0 and k != prevV", "k != prevV", "not (k == prevV or k == 0)"])
    add = r.choice(["textV.append(k)", "textV += [k]", "textV.append(x[t, k])", "textV.append(x[t].max())"])
    head = r.choice(["for t in range(len(x))", "for t in range(x.shape[0])"])
    return r.choice(
        [
            f"textV, prevV = [], {r.choice(['-1', '0'])}\n{head}:\n    k = {best}\n    if {drop}:\n"
            f"        {add}\n    prevV = k\naV = np.array(textV{r.choice(['', ', np.float32'])})",
            f"prevV, nV = 0, 0\nfor k in x.argmax(1):\n    if {drop}:\n        nV += 1\n    prevV = k",
            "kV = x.argmax(1)\naV = kV[np.concatenate([[True], kV[1:] != kV[:-1]]) & (kV != 0)]",
            "pathV = [int(x[0].argmax())]\nfor t in range(1, len(x)):\n"
            "    pathV.append(int((x[t] + (np.arange(x.shape[1]) == pathV[-1])).argmax()))\naV = np.array(pathV)",
        ]
    )


def classes(s: Scope) -> str | None:
    """Return a loop over classes, each with a selection of its own."""
    r, n = s.r, s.r.choice([2, 3])
    v = "scores"
    if "labels" in s.values:
        mask = "labels == c"
    elif "boxes" in s.values and r.random() < 0.5:
        mask = f"boxes[:, c] > {s.threshold()}"
    else:
        mask = f"{v} > c"
    source = r.choice([v, "boxes"]) if "boxes" in s.values else v
    leave = r.choice(
        [
            "",
            "    if not m.any():\n        continue\n",
            "    if m.sum() == 0:\n        continue\n",
            f"    if len({source}[m]) == 0:\n        continue\n",
            "    if m.sum() > 2:\n        break\n",
        ]
    )
    part = r.choice([f"{source}[m]", f"{source}[m][:2]", f"{source}[m] * 2", f"{source}[np.where(m)[0]]"])
    empty = f"np.zeros((0,{'' if source == v else ' boxes.shape[1]'}), {source}.dtype)"
    joined = r.choice(
        [
            "aV = np.concatenate(partsV)",
            f"aV = np.concatenate(partsV) if partsV else {empty}",
            f"if len(partsV) == 0:\n    aV = {empty}\nelse:\n    aV = np.concatenate(partsV)",
        ]
    )
    return (
        f"partsV = []\nfor c in range({n}):\n    m = {mask}\n{leave}    partsV.append({part})\n{joined}"
        if r.random() < 0.7
        else f"nV = 0\nfor c in range({n}):\n    m = {mask}\n{leave}    nV += {source}[m].sum()"
    )


def branch(s: Scope) -> str | None:
    """Return an if, a conditional expression, an early return, or an exception that is caught."""
    r, v = s.r, s.vector()
    m, c, e = s.mask_of(v), s.condition(), s.number()
    other = r.choice([f"{v} * 2", f"-{v}", f"{v} - {e}", f"np.zeros_like({v})", f"np.sort({v})", f"{v}[::-1]"])
    part = f"{v}[{m}]"
    return r.choice(
        [
            f"if {c}:\n    aV = {v}\nelse:\n    aV = {other}",
            f"if {c}:\n    aV = {v}\nelif {s.condition()}:\n    aV = {other}\nelse:\n    aV = {v} + 1",
            f"aV = {v}\nif {c}:\n    aV = {other}\nif {s.condition()}:\n    aV = aV + 1",
            f"aV = {v}.copy()\nif {c}:\n    aV[0] = {e}\nelse:\n    aV[-1] += 1",
            f"aV = {v}.copy()\nif {c}:\n    aV[aV > {s.threshold()}] = {s.threshold()}",
            f"aV = {v} if {c} else {other}",
            f"aV = {part}\nif len(aV) == 0:\n    return EARLY",
            f"aV = {part}\nif aV.size == 0:\n    aV = np.zeros(1, {v}.dtype)",
            f"if {c}:\n    return EARLY",
            f"if not {m}.any():\n    return EARLY\naV = {part}[0]",
            f"try:\n    aV = {part}[0]\nexcept IndexError:\n    aV = {v}.dtype.type(7)",
            f"try:\n    aV = {part}[{r.choice('12')}]\nexcept IndexError:\n    aV = {v}.dtype.type(-7)",
            f"aV = {part}.max() if {m}.any() else {v}.dtype.type(0)",
            f"nV = {e}\nif {s.condition(['nV'])}:\n    nV = nV + 1\naV = {v} * nV",
            f"aV = {v}\nif {c}:\n    aV = {part}",
            f"if {c}:\n    aV = np.where({m})[0]\nelse:\n    aV = np.argsort({v}, kind='stable')",
        ]
    )


def selection(s: Scope) -> str | None:
    """Return selections, of selections, and slices whose ends are data."""
    r, v = s.r, s.vector()
    m, n, t = s.mask_of(v), s.number(), s.threshold()
    count = r.choice([f"int({m}.sum())", f"min(max(int({n}), 0), 4)", f"{m}.sum()", f"np.count_nonzero({m})"])
    rows = "boxes" if "boxes" in s.values else v
    integers = s.pick("i", 1)
    return r.choice(
        [
            f"aV = {v}[{m}]",
            f"aV = {v}[{m}]\nbV = aV[aV > {t}]",
            f"bV = np.where({m})[0]\naV = {v}[bV][{v}[bV] > {t}]",
            f"bV = np.where({m})[0]\naV = {v}[bV[1:]]",
            f"aV = {v}[:{count}]",
            f"aV = {v}[{count}:]",
            f"aV = np.sort({v})[::-1][:{count}]",
            f"aV = {v}[{count}:{count}]",
            f"bV = np.argsort(-{v}, kind='stable')[:{count}]\naV = {v}[bV]",
            f"aV = {rows}[{s.mask_of('scores')}]\nbV = aV[aV[..., -1] > {t}] if aV.ndim > 1 else aV",
            f"aV = {v}[{m}]\nbV = aV[np.argsort(-aV, kind='stable')[:2]]",
            f"aV = np.unique({v})",
            f"aV = np.unique(np.floor({v}))[:2]",
            f"aV = np.concatenate([{v}[{m}], {v}[{s.mask_of(v)}]])",
            f"aV = np.float32(len({v}[{m}]))",
            f"mV = {m}\naV = {v}[mV].sum()",
            f"mV = {m}\nbV = {v}[mV]\nbV[bV > {t}] = 0\naV = {v}.copy()\naV[mV] = bV",
            f"aV = {v}.copy()\naV[{m}] = {n}",
            f"aV = np.cumsum({v}[{m}])",
            f"aV = np.bincount(np.clip({v}, 0, 3).astype(np.int64), minlength=4)",
            f"aV = {v}[{v}[{m}].argmax()]",
            f"aV = scores[{integers} % len(scores)]" if integers else f"aV = np.delete({v}, np.where({m})[0])",
            f"aV = np.delete({v}, np.where({m})[0])",
            f"aV = np.array([e for e in {v} if e > {t}], np.float32)",
            f"aV = np.array([i for i, e in enumerate({v}) if e > {t}], np.int64)",
            f"aV = sum(e for e in {v} if e > {t})",
            f"aV = any(e > {t} for e in {v})",
        ]
    )


def comprehension(s: Scope) -> str | None:
    """Return a list comprehension over elements, rows or positions."""
    r, v = s.r, s.vector()
    e, c = s.number([f"{v}[i]", "i"], 1), s.condition([f"{v}[i]", "i"], 1)
    chosen = r.choice([f"np.where({s.mask_of(v)})[0]", f"np.argsort(-{v}, kind='stable')[:4]", f"range(len({v}))"])
    test = r.choice(["", f" if {c}", f" if {c} and i > 0", f" if i > 0 if {v}[i - 1] > {s.threshold()}"])
    rows = s.pick("f", 2) or v
    return r.choice(
        [
            f"aV = np.array([{e} for i in {chosen}{test}])",
            f"aV = np.float32(len([{e} for i in {chosen}{test}]))",
            f"keepV = [i for i in {chosen}{test}]\naV = {v}[keepV]",
            f"keepV = [{v}[i] for i in {chosen}{test}]\nif len(keepV) > 1:\n    keepV.append({v}[0])\n"
            "aV = np.array(keepV)",
            f"aV = np.array([[i, {e}] for i in {chosen}{test}], np.float32)",
            f"aV = np.array([{rows}[i] * 2 for i in {chosen}{test} if i < len({rows})])",
            f"aV = np.array([{e} if {c} else {v}[0] for i in {chosen}])",
            f"bV = [{v}[i] + {v}[j] for i in range(2) for j in {chosen} if {v}[j] > {s.threshold()}]\n"
            "aV = np.array(bV)",
        ]
    )


def function(s: Scope) -> str | None:
    """Return a call of a function with branches, of a closure, or of a method."""
    r, v = s.r, s.vector()
    c, t = s.condition(["u.sum()", "u[0]"]), s.threshold()
    return r.choice(
        [
            f"def fV(u):\n    if {c}:\n        return u * 2\n    return u\naV = fV({v})",
            f"def fV(u, k=2):\n    for e in u[:k]:\n        if e > {t}:\n            return e\n"
            f"    return u[0] * 0\naV = fV({v})",
            f"nV = 0\ndef fV(u):\n    nonlocal nV\n    if {c}:\n        nV += 1\n    return u + nV\n"
            f"aV = fV({v})\nbV = fV({v})",
            f"aV = self.clipped({v}, {t})",
            f"aV = self.first_above({v}, {t})",
            f"aV = self.first_above({v}, {t}) + self.first_above({v}[::-1], {s.threshold()})",
            f"aV = list(map(lambda e: e if e > {t} else -e, {v}))[0]",
            f"aV = max({v}, key=lambda e: e)",
            f"aV = self.above({v}, {t})",
        ]
    )


def objects(s: Scope) -> str | None:
    """Return a list of objects that a loop fills, which is then sorted, filtered or changed."""
    r, v, t = s.r, s.vector(), s.threshold()
    c = s.condition([f"{v}[i]", "i"], 1)
    row = (
        "boxes[i]" if "boxes" in s.values and len(s.values["boxes"]) == len(s.values.get(v, ())) else f"{v}[i] * 2"
    )
    fill = r.choice(
        [
            f"for i in range(len({v})):\n    if {c}:\n        allV.append(ItemV({v}[i], i, {row}))",
            f"for i in np.where({s.mask_of(v)})[0]:\n    allV.append(ItemV({v}[i], int(i), {row}))",
            f"for i in range(len({v})):\n    item = ItemV({v}[i], i, {row})\n    if item.score > {t} or {c}:\n"
            "        allV.append(item)",
        ]
    )
    key = r.choice(["b.score", "-b.score", "b.place", "b.doubled()"])
    uses = [
        f"allV.sort(key=lambda b: {key}{r.choice(['', ', reverse=True'])})",
        f"allV = sorted(allV, key=lambda b: {key}{r.choice(['', ', reverse=True'])})",
        f"allV = [b for b in allV if b.score {r.choice('<>')} {s.threshold()}]",
        f"allV = allV[:{r.choice('123')}]",
        f"for b in allV:\n    if b.score {r.choice('<>')} {s.threshold()}:\n        b.score = {v}.dtype.type(3)",
        f"for i in range(len(allV)):\n    for j in range(i + 1, len(allV)):\n"
        f"        if allV[j].score - allV[i].score > {s.threshold()}:\n"
        f"            allV[j].score = {v}.dtype.type(0)",
        "nV = 0\nfor k, b in enumerate(allV):\n    if b.place > k:\n        nV += 1",
    ]
    results = [
        f"aV = np.array([b.score for b in allV], {v}.dtype)",
        "aV = np.array([b.place for b in allV], np.int64)",
        "aV = np.float32(len(allV))",
        "aV = np.array([np.sum(b.row) for b in allV], np.float32)",
    ]
    definition = (
        "class ItemV:\n    def __init__(self, score, place, row):\n        self.score = score\n"
        "        self.place = place\n        self.row = row\n\n"
        "    def doubled(self):\n        return self.score * 2\n"
    )
    return "\n".join([definition, "allV = []", fill, *r.sample(uses, r.choice([1, 1, 2, 3])), r.choice(results)])


def pairs_of_positions(s: Scope) -> str | None:
    """Return a loop over pairs of positions, or a set of integers."""
    r, rows = s.r, s.pick("f", 2)
    integers = s.pick("i", 1)
    if integers and (rows is None or r.random() < 0.5):
        seen = f"set({integers}{r.choice(['', '.tolist()'])})"
        return r.choice(
            [
                f"aV = np.float32(len({seen}))",
                f"aV = np.array(sorted({seen}{r.choice(['', ', reverse=True'])}), np.int64)",
                f"nV = 0\nfor c in sorted({seen}):\n    if c > {r.choice('012')}:\n        nV += int(c)",
                f"setV = {seen}\nnV = 0\nfor i in range({r.choice('345')}):\n    if i in setV:\n        nV += i",
                f"aV = {integers} * 2 if {r.choice('0123')} in {seen} else {integers}",
            ]
        )
    if rows is None:
        return None
    m = s.mask_of(rows)
    pairs = r.choice(
        [f"zip(*np.where({m}))", f"zip(*np.nonzero({m}))", f"zip(np.where({m})[0], np.where({m})[1])"]
    )
    counted = r.random() < 0.4
    head = f"for k, (y, x) in enumerate({pairs})" if counted else f"for y, x in {pairs}"
    numbers = [f"{rows}[y, x]", "y", "x", *(["k"] if counted else [])]
    return Loop(s, numbers, [f"{rows}[y]"] if rows == "boxes" else []).text(head)


STATEMENTS = (
    (18, loop),
    (20, greedy),
    (6, pairs),
    (6, decoder),
    (8, classes),
    (18, branch),
    (16, selection),
    (8, function),
    (8, comprehension),
    (8, objects),
    (6, pairs_of_positions),
)


def statement(s: Scope) -> str | None:
    """Return a statement."""
    weights, functions = zip(*STATEMENTS)
    found: str | None = s.r.choices(functions, weights)[0](s)
    return found
