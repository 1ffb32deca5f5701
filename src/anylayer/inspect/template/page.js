// Draws the page of a report.
(() => {
  const measured = data.measured;
  const nodes = data.nodes;

  // ------------------------------------------------------------------ helpers

  function drawn(tag, options) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(options)) made.setAttribute(name, value);
    return made;
  }

  function count(value) {
    for (const [size, unit] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
      if (value >= size) return Number((value / size).toPrecision(3)) + unit;
    }
    return String(value);
  }

  const number = (value) => (value ? count(value) : "");
  const percent = (share) => (share >= 0.0995 ? (100 * share).toFixed(0) : (100 * share).toFixed(1)) + " %";

  function time(seconds) {
    const ms = seconds * 1e3;
    return (ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms >= 0.1 ? ms.toFixed(2) : ms.toFixed(3)) + " ms";
  }

  function track(share) {
    const bar = el("i", {});
    bar.style.setProperty("--w", Math.max(0, Math.min(1, share)));
    return el("span", { class: "track", "aria-hidden": "true" }, bar);
  }

  function shortType(text) {
    return text.replace(/^float32\[(.*)\]$/, (_, d) => (d ? d.split(", ").join("×") : "scalar"));
  }

  function show(id, ...content) {
    const section = $(id);
    section.hidden = false;
    section.querySelector(".body").append(...content);
  }

  // ------------------------------------------------------------------ head

  const WHERE = {
    engine: "engine", native: "native kernel", host: "Python", constant: "constant",
    refused: "refused", unknown: "unknown", unshaped: "not traced",
  };
  const checked = nodes.map((n) => n.figures && n.figures.check).filter((c) => c && c.compared);
  const timed = nodes.filter((n) => n.figures && n.figures.seconds !== null);
  const leads = new Set(timed.map((n) => n.name));
  const slowest = Math.max(...timed.map((n) => n.figures.seconds), 1e-12);

  function head() {
    $("subtitle").textContent = data.source + (data.dialect ? " · dialect " + data.dialect : "");
    const t = data.totals;
    const hidden = nodes.filter((n) => n.hidden).length;
    tile("Nodes", (nodes.length - hidden).toLocaleString("en"), hidden ? hidden + " more of constants" : "");
    tile("Weights", count(t.weights), data.weighted ? "" : "no weights file given");
    tile("Multiply-adds", count(t.macs), t.unknown + t.refused + t.unshaped ? "of the known nodes" : "per run");
    tile("In Python", String(t.host), t.host ? "host calls" : "no host call", t.host ? "w-host" : "");
    const open = t.unknown + t.refused + t.unshaped;
    if (open) tile("Not traced", String(open), plural(t.unknown, "unknown layer"), "bad");
    if (measured && measured.seconds !== null) {
      const fps = measured.seconds ? count(Number((1 / measured.seconds).toPrecision(3))) + " runs per second" : "";
      tile("Time per run", time(measured.seconds), (measured.parts.map((p) => p.engine).join(" + ") || measured.engine) + ", median of " + measured.runs + "; " + fps);
    }
    if (measured && measured.verified) {
      const wrong = checked.filter((c) => !c.ok).length;
      const worst = Math.max(0, ...checked.map((c) => (c.relative === null ? Infinity : c.relative)));
      const text = wrong ? plural(wrong, "node") + " " + (wrong === 1 ? "differs" : "differ") : checked.length > 1 ? "all " + checked.length + " nodes compared agree" : checked.length ? "the 1 node compared agrees" : "no node was compared";
      tile("Largest error", worst === Infinity ? "not finite" : scientific(worst), "against NumPy; " + text, wrong ? "bad" : "");
    }
    for (const gap of measured ? measured.gaps : []) $("warnings").append(el("p", { class: "warning", role: "note", text: gap }));
  }

  // ------------------------------------------------------------------ inputs, outputs, maps

  function card(picture, end) {
    const caption = el("figcaption", {});
    const tag = { input: "input", output: "output", map: "feature map" }[picture.role];
    caption.append(el("span", { class: "tag", text: tag }), el("h3", { text: picture.name }));
    caption.append(el("p", { class: "mono", text: picture.type + (end && end.layout ? " " + end.layout : "") }));
    for (const line of [picture.what, picture.values]) if (line) caption.append(el("p", { text: line }));
    if (picture.top.length) {
      const most = Math.max(...picture.top.map(([, value]) => Math.abs(value)), 1e-30);
      caption.append(el("ul", { class: "top", "aria-label": "largest values" }, ...picture.top.map(([index, value]) =>
        el("li", {}, el("span", { class: "soft", text: "#" + index }), el("span", { text: value.toPrecision(4) }), track(Math.abs(value) / most)))));
    }
    const made = el("figure", {});
    if (picture.png) {
      const tiny = picture.width < 200 ? "tiny" : undefined;
      made.append(el("img", { src: picture.png, alt: tag + " " + picture.name + ": " + picture.what, width: picture.width, height: picture.height, class: tiny }));
    }
    made.append(caption);
    return made;
  }

  const CARDS = 40;

  function ends() {
    const pictures = new Map((measured ? measured.pictures : []).map((p) => [p.role + " " + p.name, p]));
    const cards = [];
    for (const role of ["input", "output"]) {
      for (const end of data[role + "s"]) {
        const empty = { role, name: end.name, type: end.type, what: "", values: "", png: "", top: [] };
        cards.push(card(pictures.get(role + " " + end.name) || empty, end));
      }
    }
    if (cards.length) show("ends", el("div", { class: "cards" }, ...cards.slice(0, CARDS)));
    if (cards.length > CARDS) show("ends", el("p", { class: "soft", text: "and " + (cards.length - CARDS).toLocaleString("en") + " more" }));
    const maps = (measured ? measured.pictures : []).filter((p) => p.role === "map");
    if (maps.length) show("maps", el("div", { class: "cards" }, ...maps.map((p) => card(p, null))));
  }

  // ------------------------------------------------------------------ time by type

  function types() {
    if (!timed.length) return;
    const sums = new Map();
    for (const n of timed) sums.set(n.type, (sums.get(n.type) || 0) + n.figures.seconds);
    const rows = [...sums].sort((a, b) => b[1] - a[1]);
    const total = measured.total || 1;
    const listed = rows.slice(0, 10);
    const rest = rows.slice(10).reduce((sum, [, s]) => sum + s, 0);
    const list = el("div", { class: "types" });
    const bar = (name, seconds, act) => el(act ? "button" : "div", act ? { type: "button", title: "Show these nodes", on: { click: act } } : {},
      el("span", { text: name }), track(seconds / listed[0][1]), el("span", { text: time(seconds) }), el("span", { class: "soft", text: percent(seconds / total) }));
    for (const [name, seconds] of listed) list.append(bar(name, seconds, () => choose(name)));
    if (rest > 0) list.append(bar(plural(rows.length - 10, "other type"), rest));
    const outside = { call: "calls of the engine, outside its nodes", reorder: "reorders in memory" };
    for (const [key, label] of Object.entries(outside)) if (measured.outside[key] > 0) list.append(bar(label, measured.outside[key]));
    const how = measured.counted ? "The engine's own counters. Nodes that it computes together count as the one with the most multiply-adds, or with the most operators." : "Measured from outside, call by call.";
    show("types", el("p", { class: "soft", text: how }), list);
  }

  function choose(type) {
    $("type").value = type;
    update();
    $("nodes").scrollIntoView();
    $("type").focus({ preventScroll: true });
  }

  // ------------------------------------------------------------------ the table

  const figure = (n, get) => (n.figures ? get(n.figures) : null);
  const relative = (n) => figure(n, (f) => (f.check && f.check.compared ? (f.check.relative === null ? Infinity : f.check.relative) : null));
  const outputs = (n) => n.outputs.map(([, t]) => (t ? shortType(t) : "?")).join(", ");
  const size = (n) => n.outputs.reduce((sum, [, t]) => sum + ((t.match(/\[(.*)\]/) || ["", ""])[1].match(/\d+/g) || []).reduce((a, d) => a * Number(d), 1), 0);
  const HEIGHT = 34;
  const lanes = Math.max(1, ...nodes.map((n) => Math.max(n.lane, ...n.above, ...n.through) + 1));
  const gap = Math.max(4, Math.min(14, 72 / lanes));
  const x = (lane) => 8 + lane * gap;

  function lane(n) {
    const svg = drawn("svg", { class: "lanes", width: 16 + (lanes - 1) * gap, height: HEIGHT, "aria-hidden": "true" });
    const middle = HEIGHT / 2;
    const lines = n.through.map((l) => `M${x(l)} 0V${HEIGHT}`);
    for (const l of n.above) {
      lines.push(l === n.lane ? `M${x(l)} 0V${middle}` : `M${x(l)} 0C${x(l)} ${middle} ${x(n.lane)} 0 ${x(n.lane)} ${middle}`);
    }
    if (n.below) lines.push(`M${x(n.lane)} ${middle}V${HEIGHT}`);
    if (lines.length) svg.append(drawn("path", { class: "edge", d: lines.join("") }));
    svg.append(drawn("circle", { class: "dot " + n.where, cx: x(n.lane), cy: middle, r: 4 }));
    if (n.starts || n.ends) svg.append(drawn("circle", { class: "ring", cx: x(n.lane), cy: middle, r: 6.5 }));
    return svg;
  }

  function passing(n) {
    const svg = drawn("svg", { class: "lanes", width: 16 + (lanes - 1) * gap, height: "100%" });
    for (const l of n.below ? [...n.through, n.lane] : n.through) svg.append(drawn("line", { class: "edge", x1: x(l), x2: x(l), y1: 0, y2: "100%" }));
    svg.style.position = "absolute";
    svg.style.top = "0";
    return svg;
  }

  function timeCell(n) {
    const f = n.figures;
    if (!f) return [];
    if (f.seconds !== null) return [el("div", {}, el("span", { text: time(f.seconds) }), track(f.seconds / slowest))];
    const into = f.together.find((name) => name !== n.name && leads.has(name)) || f.into;
    return into ? [el("div", {}, el("span", { class: "soft", text: "in " + into, title: "computed together with " + into }))] : [];
  }

  function errorCell(n) {
    const c = figure(n, (f) => f.check);
    if (!c) return [];
    if (c.refused) return [el("span", { class: "bad", text: "refused" })];
    if (!c.compared) return [el("span", { class: "soft", text: "–", title: c.note })];
    const text = c.relative === null ? "not finite" : scientific(c.relative);
    return [el("span", { class: c.ok ? undefined : "bad", text: (c.ok ? "" : "✕ ") + text, title: c.ok ? "agrees with NumPy" : "differs from NumPy" })];
  }

  const text = (value) => (value ? [document.createTextNode(value)] : []);
  const MANY = 200; // from here on the browser lays out only the rows in sight
  const GRAPH = Math.max(76, 32 + (lanes - 1) * gap) + "px";
  const COLUMNS = [
    { key: "graph", label: "Graph", width: GRAPH, value: (n) => n.i, cell: (n) => [lane(n)] },
    { key: "name", label: "Node", width: "minmax(130px, 1.5fr)", value: (n) => n.name },
    { key: "type", label: "Type", width: "minmax(110px, 1fr)", value: (n) => n.type, cell: (n) => text(n.type), title: (n) => n.type },
    { key: "params", label: "Params", width: "minmax(150px, 2.4fr)", value: (n) => n.short, cell: (n) => text(n.short.slice(0, 160)), title: (n) => n.short },
    { key: "output", label: "Output", width: "minmax(125px, 1fr)", value: size, cell: (n) => text(outputs(n)), title: outputs },
    { key: "weights", label: "Weights", width: "80px", num: true, value: (n) => n.weights, cell: (n) => text(number(n.weights)) },
    { key: "macs", label: "MACs", width: "72px", num: true, value: (n) => n.macs, cell: (n) => text(number(n.macs)) },
    { key: "runs", label: "Where", width: "minmax(80px, 1fr)", value: (n) => n.runs, cell: (n) => [el("span", { class: "w-" + n.where, text: n.runs })], title: (n) => n.reason || n.runs },
    { key: "time", label: "Time", width: "minmax(118px, 1.3fr)", when: () => timed.length, value: (n) => figure(n, (f) => f.seconds), cell: timeCell },
    { key: "error", label: "Error", width: "76px", num: true, when: () => measured && measured.verified, value: relative, cell: errorCell },
    { key: "precision", label: "Precision", width: "92px", when: () => timed.length, value: (n) => figure(n, (f) => f.precision), cell: (n) => text(figure(n, (f) => f.precision)) },
  ].filter((c) => !c.when || c.when());

  const state = { key: "graph", down: false, off: new Set(["constant"]) };
  const rows = nodes.map(makeRow);
  const found = nodes.map((n) => [n.name, n.type, n.short, n.runs, n.reason, ...n.outputs.map(([v]) => v)].join("\n").toLowerCase());

  // A name that is too long is cut in the middle: the ends of names tell nodes apart.
  function halves(name) {
    const end = Math.max(name.length - 9, Math.ceil(name.length / 2));
    return [el("span", { text: name.slice(0, end) }), el("span", { text: name.slice(end) })];
  }

  function makeRow(n) {
    const tr = el("tr", { class: "node", id: "n" + n.i, role: "row" });
    for (const c of COLUMNS) {
      const title = c.title ? c.title(n) : undefined;
      if (c.key === "name") {
        const button = el("button", { type: "button", "aria-expanded": "false", title: n.name, on: { click: () => toggle(n) } }, ...halves(n.name || "(no name)"));
        tr.append(el("td", { class: "name", role: "rowheader" }, button));
      } else tr.append(el("td", { class: c.key + (c.num ? " num" : ""), role: "cell", title }, ...c.cell(n)));
    }
    return tr;
  }

  function toggle(n) {
    const row = rows[n.i];
    const button = row.querySelector("button");
    const opened = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!opened));
    row.classList.toggle("open", !opened);
    if (opened) {
      row.more.remove();
      row.more = null;
    } else {
      row.more = el("tr", { class: "more", role: "row", id: "m" + n.i }, el("td", { class: "graph detail", role: "cell" }, passing(n)),
        el("td", { class: "detail", role: "cell" }, details(n)));
      button.setAttribute("aria-controls", "m" + n.i);
      row.after(row.more);
    }
  }

  function details(n) {
    const list = el("dl", {});
    const add = (label, ...content) => {
      if (content.length) list.append(el("dt", { text: label }), el("dd", {}, ...content));
    };
    const lines = (parts) => (parts.length ? [el("ul", {}, ...parts.map((p) => el("li", {}, ...(Array.isArray(p) ? p : [p]))))] : []);
    if (n.reason) add(n.where === "host" ? "Why in Python" : "Reason", el("span", { class: "w-" + n.where, text: n.reason }));
    add("Inputs", ...lines(n.inputs.map(([value, type], k) => {
      const from = n.from[k];
      const name = from < 0 ? el("code", { text: value }) : el("a", { href: "#n" + from, text: value, on: { click: (event) => reveal(event, nodes[from]) } });
      const where = from >= 0 ? (nodes[from].name === value ? "" : " from " + nodes[from].name) : data.inputs.some((e) => e.name === value) ? " (network input)" : "";
      return [name, el("span", { class: "soft", text: " " + type + where })];
    })));
    add("Outputs", ...lines(n.outputs.map(([value, type]) => [el("code", { text: value }), el("span", { class: "soft", text: " " + (type || "shape not known") })])));
    add("Params", ...lines(n.params.map(([key, value]) => [el("span", { class: "soft", text: key + " " }), el("code", { text: value })])));
    if (n.weights) add("Weights", document.createTextNode(n.weights.toLocaleString("en")));
    if (n.macs) add("Multiply-adds", document.createTextNode(n.macs.toLocaleString("en")));
    const f = n.figures;
    if (f) {
      const ops = (counts) => Object.entries(counts).map(([op, k]) => (k > 1 ? k + " × " : "") + op).join(", ") || "none";
      if (Object.keys(f.recorded).length) {
        let left = "";
        if (f.compiled && ops(f.compiled) !== ops(f.recorded)) left = " → " + ops(f.compiled) + " after rewriting" + (f.into ? "; folded into " + f.into : "");
        add("Operators", document.createTextNode(ops(f.recorded) + left));
      }
      if (f.together.length) add("Runs with", document.createTextNode(f.together.filter((name) => name !== n.name).join(", ")));
      if (f.seconds !== null) {
        const shares = [time(f.seconds), percent(f.seconds / (measured.total || 1)) + " of the run"];
        if (f.arithmetic !== null) shares.push(percent(f.arithmetic) + " of the peak arithmetic");
        if (f.bandwidth !== null) shares.push(percent(f.bandwidth) + " of the peak bandwidth");
        if (f.limit) shares.push(f.limit === "neither" ? "limited by neither" : "limited by " + f.limit);
        add("Time", document.createTextNode(shares.join(", ")));
      }
      if (f.check) {
        const c = f.check;
        const said = c.refused || !c.compared ? c.note : (c.ok ? "agrees with NumPy" : "differs from NumPy") + ": largest error " + (c.error === null ? "not finite" : c.error.toPrecision(3)) + " of " + c.scale.toPrecision(3) + (c.note ? "; " + c.note : "");
        add("Comparison", el("span", { class: c.ok ? undefined : "bad", text: said }));
      }
    }
    if (n.own) add("Defined in", el("code", { text: n.origin }));
    add("Notes", ...lines(n.notes.map((note) => document.createTextNode(note))));
    return list;
  }

  function reveal(event, n) {
    event.preventDefault(); // focus is set here, instead of by the address
    if (rows[n.i].hidden) {
      $("search").value = "";
      $("type").value = "";
      state.off.clear();
      update();
    }
    rows[n.i].querySelector("button").focus();
  }

  function compare(column) {
    return (a, b) => {
      const [p, q] = [column.value(a), column.value(b)];
      if (p === null || q === null) return p === q ? a.i - b.i : p === null ? 1 : -1; // nodes without a value are last
      const order = typeof p === "string" ? p.localeCompare(q, "en", { numeric: true }) : p - q;
      return (state.down ? -order : order) || a.i - b.i;
    };
  }

  function sort() {
    const column = COLUMNS.find((c) => c.key === state.key);
    const all = document.createDocumentFragment();
    for (const n of [...nodes].sort(compare(column))) {
      all.append(rows[n.i]);
      if (rows[n.i].more) all.append(rows[n.i].more);
    }
    all.append(nothing);
    $("table").tBodies[0].append(all);
    for (const th of $("table").querySelectorAll("th")) {
      th.setAttribute("aria-sort", th.dataset.key === state.key ? (state.down ? "descending" : "ascending") : "none");
    }
    $("sort").value = state.key;
  }

  const nothing = el("tr", { class: "none", role: "row", hidden: true }, el("td", { role: "cell", text: "No node matches." }));

  function update() {
    const terms = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const type = $("type").value;
    let shown = 0;
    let possible = 0;
    for (const n of nodes) {
      const off = state.off.has(n.hidden ? "constant" : n.where);
      const match = !off && (!type || n.type === type) && terms.every((term) => found[n.i].includes(term));
      rows[n.i].hidden = !match;
      if (rows[n.i].more) rows[n.i].more.hidden = !match;
      shown += match;
      possible += !n.hidden || !state.off.has("constant");
    }
    nothing.hidden = shown > 0;
    $("count").textContent = shown === possible ? plural(shown, "node") : shown.toLocaleString("en") + " of " + plural(possible, "node");
    // Lines lead from row to row only where the rows are complete and in computing order.
    $("table").classList.toggle("loose", state.key !== "graph" || state.down || shown < possible);
  }

  function table() {
    const header = el("tr", { role: "row" });
    for (const c of COLUMNS) {
      const button = el("button", { type: "button", text: c.label, title: c.key === "graph" ? "Sort in computing order" : undefined, on: { click: () => by(c) } });
      const th = el("th", { scope: "col", role: "columnheader", class: c.num ? "num" : undefined, "aria-sort": "none" }, button);
      th.dataset.key = c.key;
      $("sort").append(el("option", { value: c.key, text: c.key === "graph" ? "computing order" : c.label }));
      header.append(th);
    }
    $("table").tHead.append(header);
    $("table").classList.toggle("many", nodes.length > MANY);
    $("table").style.setProperty("--columns", COLUMNS.map((c) => c.width).join(" "));
    // On paper all columns must fit: each gets its share of the width.
    $("table").style.setProperty("--printed", COLUMNS.map((c) => "minmax(0, " + parseInt(c.width.replace("minmax(", "")) + "fr)").join(" "));
    $("table").style.setProperty("--graph", GRAPH);
    $("type").append(el("option", { value: "", text: "all" }));
    const kinds = new Map();
    for (const n of nodes) kinds.set(n.type, (kinds.get(n.type) || 0) + 1);
    for (const [name, k] of [...kinds].sort()) $("type").append(el("option", { value: name, text: name + " (" + k + ")" }));
    const places = [...new Set(nodes.map((n) => (n.hidden ? "constant" : n.where)))];
    if (places.length < 2) $("where").hidden = true;
    if (places.every((p) => p === "constant")) state.off.clear();
    for (const place of Object.keys(WHERE).filter((p) => places.includes(p))) {
      const chip = el("button", { type: "button", class: "chip", "aria-pressed": String(!state.off.has(place)), text: WHERE[place] });
      chip.addEventListener("click", () => {
        if (!state.off.delete(place)) state.off.add(place);
        update();
      });
      chip.place = place;
      $("where").append(chip);
    }
    sort();
    update();
  }

  function by(column) {
    const largest = column.num || ["time", "output"].includes(column.key); // the largest values first
    state.down = state.key === column.key ? !state.down : Boolean(largest);
    state.key = column.key;
    sort();
    update();
  }

  // ------------------------------------------------------------------ layers, conversion, notes

  function code() {
    const layers = measured ? measured.code : [];
    if (!layers.length) return;
    show("code", ...layers.map((layer) => {
      const where = layer.file + (layer.line ? ":" + layer.line : "");
      const used = layer.nodes.slice(0, 6).join(", ") + (layer.nodes.length > 6 ? " and " + (layer.nodes.length - 6) + " more" : "");
      const made = el("article", { class: "layer" }, el("h3", { text: layer.type }), el("p", {}, el("code", { text: where }), document.createTextNode(" · " + plural(layer.nodes.length, "node") + (used ? ": " + used : ""))));
      const reasons = new Map();
      for (const [name, reason] of layer.calls) reasons.set(reason, [...(reasons.get(reason) || []), name]);
      for (const [reason, names] of reasons) made.append(el("p", { class: "reason", text: names.slice(0, 4).join(", ") + (names.length > 4 ? " …" : "") + " in Python: " + reason }));
      if (!layer.text) return made;
      const pre = el("pre", { tabindex: "0", "aria-label": "source of " + layer.type });
      layer.text.replace(/\n$/, "").split("\n").forEach((line, k) => {
        const at = layer.line + k;
        pre.append(el("span", { class: "l" + (layer.marked.includes(at) ? " marked" : ""), "data-n": at, text: line || " " }));
      });
      made.append(pre);
      return made;
    }));
  }

  function grid(heads, lines, label) {
    const made = el("table", { class: "plain", "aria-label": label });
    made.append(el("thead", {}, el("tr", {}, ...heads.map((h, k) => el("th", { scope: "col", class: k ? "num" : undefined, text: h })))));
    made.append(el("tbody", {}, ...lines.map((cells) => el("tr", {}, ...cells.map((c, k) => el("td", { class: k ? "num" : undefined }, c))))));
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, made);
  }

  function change() {
    const c = measured && measured.change;
    if (!c) return;
    const files = grid(["File", "Size"], c.files.map(([name, bytes]) => [name, count(bytes) + "B"]), "files");
    const checks = grid(["Output", "Largest error", "Tolerance"], c.checks.map((k) => [k.name, el("span", { class: k.ok ? "good" : "bad", text: k.error === null ? "not finite" : scientific(k.error) + " of " + k.scale.toPrecision(3) }), k.tolerance.toExponential(0)]), "outputs");
    const kinds = [...new Set([...Object.keys(c.before), ...Object.keys(c.after)])].sort();
    const total = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);
    const parts = [el("div", {}, el("p", { text: "Written as " + c.format + "; compared with " + c.compared }), files)];
    if (c.checks.length) parts.push(el("div", {}, el("p", { text: "The file was compared with the layers in NumPy" }), checks));
    if (Object.keys(c.after).length) {
      parts.push(el("div", {}, el("p", { text: total(c.before) + " nodes became " + total(c.after) }),
        grid(["Type", "Before", "After"], kinds.map((k) => [k, String(c.before[k] || ""), String(c.after[k] || "")]), "types of nodes before and after")));
    }
    show("change", el("div", { class: "split" }, ...parts), ...(c.notes.length ? [el("ul", { class: "notes" }, ...c.notes.map((n) => el("li", { text: n })))] : []));
  }

  function contents() {
    for (const section of document.querySelectorAll("main > section")) {
      if (!section.hidden) $("contents").append(el("a", { href: "#" + section.id, text: section.querySelector("h2").textContent }));
    }
  }

  // ------------------------------------------------------------------ events

  function keys(event) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      $("nodes").scrollIntoView({ behavior: "instant" });
      $("search").focus({ preventScroll: true });
      $("search").select();
    } else if (event.key === "Escape" && event.target === $("search")) {
      $("search").value = "";
      update();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && event.target.closest && event.target.closest("td.name, #search")) {
      const buttons = [$("search"), ...$("table").querySelectorAll("tr.node:not([hidden]) td.name button")];
      const next = buttons[buttons.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1)];
      if (next) {
        event.preventDefault();
        next.focus();
      }
    }
  }

  head();
  ends();
  types();
  table();
  code();
  change();
  if (data.notes.length) show("notes", el("ul", { class: "notes" }, ...data.notes.map((note) => el("li", { text: note }))));
  contents();
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("search").addEventListener("input", update);
  $("type").addEventListener("change", update);
  $("sort").addEventListener("change", () => by(COLUMNS.find((c) => c.key === $("sort").value)));
  $("where").addEventListener("click", () => {
    for (const chip of $("where").querySelectorAll(".chip")) chip.setAttribute("aria-pressed", String(!state.off.has(chip.place)));
  });
  document.addEventListener("keydown", keys);
})();
