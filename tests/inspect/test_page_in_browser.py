"""The page of a report in headless Chromium: it draws, sorts and filters, and asks nothing of any network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import anylayer

from .test_full import HOSTILE, NET, Branchy, Twice

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
LARGE = 1000
"""The number of nodes that must not lag."""
LAG = 0.5
"""Seconds that sorting or filtering a large page may take, on a busy machine; a person notices about 0.1."""


@dataclass
class Opened:
    """A page in the browser, with all that it said and asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def rows(self) -> list[str]:
        """Return the names of the rows that are shown, from top to bottom."""
        found: list[str] = self.page.locator("tr.node:not([hidden]) td.name").all_text_contents()
        return found

    def seconds(self, act: str) -> float:
        """Return how long a piece of JavaScript takes, up to the next drawn frame."""
        code = f"""async () => {{
            const start = performance.now(); {act};
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            return (performance.now() - start) / 1e3; }}"""
        taken: float = self.page.evaluate(code)
        return taken


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser: Browser, file: Path, **context: Any) -> Opened:
    page = browser.new_context(**context).new_page()
    made = Opened(page)
    page.on("console", lambda message: made.said.append(message.text))
    page.on("pageerror", lambda error: made.said.append(str(error)))
    page.on("request", lambda request: made.asked.append(request.url))
    page.goto(file.as_uri())
    return made


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    (folder / "net.prototxt").write_text(NET)
    net = anylayer.read(folder / "net.prototxt", layers=[("Twice", Twice), ("Branchy", Branchy)]).fill()
    net.report(engine="onnxruntime", seconds=0.05).save(folder / "page.html")
    return folder / "page.html"


@pytest.fixture
def page(browser: Browser, small: Path) -> Iterator[Opened]:
    made = opened(browser, small, viewport={"width": 1400, "height": 900})
    yield made
    assert made.said == [] and {url.split(":")[0] for url in made.asked} <= {"file", "data"}
    made.page.context.close()


def test_page_draws_rows_lanes_and_pictures(page: Opened) -> None:
    assert page.rows() == ["conv", "relu", "twice", "branchy", "score", "prob"]
    assert page.page.locator("svg.lanes circle.dot").count() == 6
    assert page.page.locator("figure img").evaluate_all("all => all.every(i => i.naturalWidth > 0)")
    assert "if float(str(inputs[0].mean())) > 1e9" in page.page.locator("pre span.marked").inner_text()
    assert page.page.locator("#count").inner_text() == "6 nodes"


def test_columns_sort_in_both_directions(page: Opened) -> None:
    header = page.page.locator("th[data-key=name]")
    header.locator("button").click()
    assert page.rows() == sorted(page.rows()) and header.get_attribute("aria-sort") == "ascending"
    header.locator("button").click()
    assert page.rows() == sorted(page.rows(), reverse=True) and header.get_attribute("aria-sort") == "descending"
    edge = "getComputedStyle(document.querySelector('path.edge')).display"
    assert page.page.evaluate(edge) == "none"  # lines would lead to the wrong rows
    page.page.locator("th[data-key=macs] button").click()
    assert page.rows()[:2] == ["conv", "score"]  # 64 * 4 * 27 and 256 * 7 multiply-adds
    page.page.locator("th[data-key=graph] button").click()
    assert page.rows()[0] == "conv" and page.page.evaluate(edge) == "inline"


def test_search_type_and_place_filter(page: Opened) -> None:
    page.page.keyboard.press("/")
    page.page.keyboard.type("num_output=4")
    assert page.rows() == ["conv"] and page.page.locator("#count").inner_text() == "1 of 6 nodes"
    page.page.keyboard.press("Escape")
    assert len(page.rows()) == 6
    page.page.select_option("#type", "Softmax")
    assert page.rows() == ["prob"]
    page.page.select_option("#type", "")
    page.page.get_by_role("button", name="engine", exact=True).click()
    assert page.rows() == ["branchy"]
    page.page.fill("#search", "no such node")
    assert page.page.get_by_text("No node matches.").is_visible()


def test_keyboard_opens_a_node_and_follows_its_input(page: Opened) -> None:
    page.page.locator("td.name button").first.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.page.keyboard.press(key)
    focused = "document.activeElement.textContent"
    assert page.page.evaluate(focused) == "twice"
    detail = page.page.locator("tr.more").inner_text()
    assert "agrees with NumPy" in detail and "test_full.py" in detail and "Mul" in detail
    page.page.locator("tr.more a").first.click()
    assert page.page.evaluate(focused) == "relu"
    page.page.locator("td.name button").nth(2).press("Enter")
    assert page.page.locator("tr.more").count() == 0


def test_arrow_keys_lead_from_the_search_to_the_first_node_and_back(page: Opened) -> None:
    page.page.keyboard.press("/")
    box = page.page.locator("#nodes").bounding_box()
    assert box is not None and box["y"] < 450  # the results are in sight
    page.page.keyboard.type("t")
    page.page.keyboard.press("ArrowDown")
    focused = "document.activeElement.textContent || document.activeElement.id"
    assert page.page.evaluate(focused) == page.rows()[0]
    page.page.keyboard.press("ArrowUp")
    assert page.page.evaluate(focused) == "search"


def test_long_name_keeps_its_end(page: Opened) -> None:
    button = page.page.locator("td.name button").first
    button.evaluate("b => b.children[0].textContent = 'a very long name of a node '.repeat(9)")
    end, cell = button.locator("span").nth(1).bounding_box(), page.page.locator("td.name").first.bounding_box()
    assert end and cell and end["width"] > 0 and end["x"] + end["width"] <= cell["x"] + cell["width"]


def test_theme_follows_the_system_and_the_button(browser: Browser, small: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    colors = [opened(browser, small, color_scheme=s).page.evaluate(background) for s in ("light", "dark")]
    assert colors == ["rgb(255, 255, 255)", "rgb(21, 24, 29)"]
    page = opened(browser, small, color_scheme="light").page
    page.click("#theme")
    page.click("#theme")
    assert page.evaluate(background) == colors[1] and page.inner_text("#theme") == "Theme: dark"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(browser: Browser, small: Path, scheme: Any) -> None:
    page = opened(browser, small, color_scheme=scheme).page
    colors = page.evaluate("""() => {
        const canvas = document.createElement("canvas").getContext("2d");
        const probe = document.body.appendChild(document.createElement("i"));
        const read = (name) => {
            probe.style.color = `var(--${name})`;
            canvas.fillStyle = getComputedStyle(probe).color;
            canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
        const names = ["paper", "raised", "ink", "soft", "accent", "native", "python", "bad", "good"];
        return Object.fromEntries(names.map((name) => [name, read(name)])); }""")

    def luminance(rgb: list[int]) -> float:  # WCAG 2.2, relative luminance
        parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    for name in ("ink", "soft", "accent", "native", "python", "bad", "good"):
        for ground in ("paper", "raised"):
            low, high = sorted((luminance(colors[name]), luminance(colors[ground])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (name, ground)


@pytest.mark.parametrize("width", [360, 780, 1400])
def test_page_is_never_wider_than_the_window(browser: Browser, small: Path, width: int) -> None:
    page = opened(browser, small, viewport={"width": width, "height": 800}).page
    page.locator("td.name button").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_controls_have_names(page: Opened) -> None:
    unnamed = """() => [...document.querySelectorAll("button, input, select, img, [role=region], pre[tabindex]")]
        .filter((e) => !(e.textContent || e.alt || e.ariaLabel || e.getAttribute("aria-labelledby")
            || (e.labels && e.labels.length))).map((e) => e.outerHTML)"""
    assert page.page.evaluate(unnamed) == []


def test_print_shows_the_nodes_without_controls(page: Opened) -> None:
    page.page.emulate_media(media="print")
    assert not page.page.locator("#controls").is_visible() and not page.page.locator("#theme").is_visible()
    page.page.set_viewport_size({"width": 700, "height": 1000})  # about the width of A4 without its margins
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 700
    assert page.page.locator("svg.lanes").first.is_visible()
    assert page.page.locator("td.macs").first.inner_text() == "6.91 k"
    assert page.page.locator("tr.node").last.is_visible()
    assert page.page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_name_is_shown_as_text(browser: Browser, tmp_path: Path, name: str) -> None:
    quoted = name.replace('"', '\\"')
    (tmp_path / "net.prototxt").write_text(NET.replace('"prob"', f'"{quoted}"'), "utf-8")
    net = anylayer.read(tmp_path / "net.prototxt", layers=[("Twice", Twice), ("Branchy", Branchy)])
    net.report().save(tmp_path / "page.html")
    made = opened(browser, tmp_path / "page.html")
    assert made.page.locator("td.name button").last.text_content() == name
    assert made.page.locator("#ends h3").last.text_content() == name
    assert made.said == [] and len(made.asked) == 1


def test_page_in_a_notebook_frame_runs_alone(browser: Browser, small: Path, tmp_path: Path) -> None:
    net = anylayer.read(small.parent / "net.prototxt", layers=[("Twice", Twice), ("Branchy", Branchy)])
    (tmp_path / "notebook.html").write_text(f"<!doctype html>{net.report()._repr_html_()}")
    made = opened(browser, tmp_path / "notebook.html")
    frame = made.page.frame_locator("iframe")
    assert frame.locator("tr.node").count() == 6 and made.said == []


def test_thousand_nodes_do_not_lag(browser: Browser, tmp_path: Path) -> None:
    layers = []
    for i in range(1, LARGE + 1):  # every third node also reads one that is up to ten nodes back
        kind, more = ("Eltwise", f'bottom: "v{max(0, i - 2 - i % 9)}"') if i % 3 == 0 else ("Sigmoid", "")
        layers.append(f'layer {{ name: "n{i}" type: "{kind}" bottom: "v{i - 1}" {more} top: "v{i}" }}')
    head = 'layer { name: "v0" type: "Input" top: "v0" input_param { shape { dim: 1 dim: 2 } } }'
    (tmp_path / "net.prototxt").write_text("\n".join([head, *layers]))
    report = anylayer.read(tmp_path / "net.prototxt").report(engine="onnxruntime", seconds=0.05, compare=False)
    report.save(tmp_path / "page.html")
    made = opened(browser, tmp_path / "page.html", viewport={"width": 1400, "height": 900})
    assert len(made.rows()) == LARGE and made.said == []
    sort = 'document.querySelector("th[data-key=time] button").click()'
    search = (
        'const s = document.getElementById("search"); s.value = "eltwise"; s.dispatchEvent(new Event("input"))'
    )
    assert made.page.locator("#count").inner_text() == "1,000 nodes"
    assert min(made.seconds(sort) for _ in range(10)) < LAG
    assert min(made.seconds(search) for _ in range(10)) < LAG
    assert len(made.rows()) == LARGE // 3
    load = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
    assert made.page.evaluate(load) < 3000
