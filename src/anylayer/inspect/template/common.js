"use strict";
// What the pages share. Text of files is only ever set as text, never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

function el(tag, options, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") made.textContent = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((c) => c !== null && c !== undefined));
  return made;
}

const plural = (n, noun) => n.toLocaleString("en") + " " + noun + (n === 1 ? "" : "s");
const scientific = (value) => (value ? value.toExponential(1) : "0");

function tile(label, value, small, style) {
  const shown = el("dd", { class: style }, value);
  if (small) shown.append(el("small", { text: small }));
  $("figures").append(el("div", {}, el("dt", { text: label }), shown));
}

const THEMES = [["system", "light dark"], ["light", "light"], ["dark", "dark"]];
let theme = 0;
function changeTheme() {
  theme = (theme + 1) % THEMES.length;
  document.documentElement.style.colorScheme = THEMES[theme][1];
  $("theme").textContent = "Theme: " + THEMES[theme][0];
}

$("theme").addEventListener("click", changeTheme);
