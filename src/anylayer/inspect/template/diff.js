// Draws two compared networks side by side.
(() => {
  const rows = data.rows;
  const STATUS = { same: "agrees", differs: "differs", folded: "folded", moved: "rearranges", "not compared": "not compared" };
  const error = (value) => (value === null ? "" : scientific(value));
  const first = rows.findIndex((row) => row.first);

  function names(cell) {
    return cell.names.map((name, k) => el("li", {}, el("span", { class: "name", text: name || "(no name)" }), " ", el("span", { class: "soft", text: cell.types[k] })));
  }

  function side(cell, label) {
    if (!cell) return el("div", { class: "side none", role: "cell", "aria-label": "nothing in " + label });
    return el("div", { class: "side", role: "cell" }, el("ul", {}, ...names(cell)),
      el("p", { class: "mono soft", text: cell.outputs.join(", ").replaceAll("float32", "") }));
  }

  function found(row) {
    const list = el("table", { class: "plain", "aria-label": "what differs" });
    list.append(el("tbody", {}, ...row.details.map(([what, a, b]) => el("tr", {}, el("th", { scope: "row", text: what }),
      el("td", b ? {} : { colspan: 2 }, a), b ? el("td", {}, b) : null))));
    return el("div", { class: "scroll" }, list);
  }

  function params(cell) {
    const list = el("dl", {});
    for (const [name, value] of cell ? cell.fields : []) list.append(el("dt", { text: name }), el("dd", { class: "mono", text: value }));
    return el("div", { class: "side" }, cell && cell.fields.length ? list : el("p", { class: "soft", text: cell ? "no parameters" : "" }));
  }

  function make(row, i) {
    const more = el("div", { class: "more", hidden: true });
    const button = el("button", { type: "button", class: "status s-" + row.status.replace(" ", "-"), "aria-expanded": "false", on: { click: () => toggle() } },
      el("b", { text: STATUS[row.status] }), el("span", { class: "soft", text: [row.error === null ? "" : error(row.error), row.how.replace(/^(name|values)(, )?/, "")].filter(Boolean).join(" · ") }));
    const made = el("div", { class: "pair" + (row.first ? " first" : ""), role: "row", id: "r" + i },
      row.first ? el("p", { class: "flag", text: "First difference" }) : null,
      side(row.a, "A"), el("div", { class: "middle", role: "cell" }, button, row.note ? el("p", { class: "soft", text: row.note }) : null), side(row.b, "B"),
      row.status === "differs" && row.details.length ? found(row) : null, more);
    function toggle() {
      more.hidden = !more.hidden;
      button.setAttribute("aria-expanded", String(!more.hidden));
      if (!more.childElementCount) more.append(params(row.a), row.status !== "differs" && row.details.length ? found(row) : el("div", {}), params(row.b));
    }
    return made;
  }

  const made = rows.map(make);
  const text = rows.map((row) => [row.a, row.b].filter(Boolean).flatMap((cell) => [...cell.names, ...cell.types]).join("\n").toLowerCase());
  const SHOWN = [
    ["all nodes", () => true],
    ["without rearranging nodes", (row) => row.status !== "moved"],
    ["what differs", (row) => row.status === "differs" || (row.status === "same" && row.details.length > 0)],
  ];

  function update() {
    const wanted = $("search").value.trim().toLowerCase();
    const keep = SHOWN[Number($("show").value)][1];
    let shown = 0;
    rows.forEach((row, i) => {
      made[i].hidden = !(keep(row) && text[i].includes(wanted));
      shown += made[i].hidden ? 0 : 1;
    });
    $("count").textContent = shown === rows.length ? plural(rows.length, "row") : shown + " of " + plural(rows.length, "row");
  }

  function head() {
    $("subtitle").textContent = data.verdict;
    $("subtitle").className = data.same ? "good" : "bad";
    for (const key of ["a", "b"]) tile(key.toUpperCase(), data[key].name, data[key].format + ", " + plural(data[key].nodes, "node"));
    const differing = rows.filter((row) => row.status === "differs").length;
    const worst = Math.max(0, ...data.outputs.map((o) => (o.error === null ? Infinity : o.error)));
    tile("Differences", String(differing), differing ? "" : plural(rows.filter((row) => row.status === "same").length, "pair") + " agree", differing ? "bad" : "good");
    tile("Outputs", worst === Infinity ? "other shapes" : error(worst), "largest difference, relative to the largest value", data.outputs.every((o) => o.ok) ? "" : "bad");
    if (first >= 0) $("figures").after(el("p", { class: "jump" }, el("a", { href: "#r" + first, text: "Go to the first difference" })));
  }

  head();
  const heads = el("div", { class: "pair heads", role: "row" }, el("div", { role: "columnheader", text: "A · " + data.a.name }), el("div", {}), el("div", { role: "columnheader", text: "B · " + data.b.name }));
  $("pairs").append(heads, ...made);
  for (const [k, [label]] of SHOWN.entries()) $("show").append(el("option", { value: k, text: label }));
  const outputs = el("table", { class: "plain", "aria-label": "outputs" }, el("thead", {}, el("tr", {}, ...["A", "B", "Difference", ""].map((t) => el("th", { scope: "col", text: t })))));
  outputs.append(el("tbody", {}, ...data.outputs.map((o) => el("tr", {}, el("td", { text: o.a + " " + o.shapes[0] }), el("td", { text: o.b + " " + o.shapes[1] + (o.layout ? ", " + o.layout : "") }),
    el("td", { text: o.error === null ? "other shape" : error(o.error) }), el("td", { class: o.ok && o.tells ? "good" : "bad", text: !o.tells ? "tells nothing" : o.ok ? "agrees" : "differs" })))));
  $("outputs").querySelector(".body").append(el("div", { class: "scroll" }, outputs));
  if (data.notes.length) {
    $("notes").hidden = false;
    $("notes").querySelector(".body").append(el("ul", { class: "notes" }, ...data.notes.map((note) => el("li", { text: note }))));
  }
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("search").addEventListener("input", update);
  $("show").addEventListener("change", update);
  update();
})();
