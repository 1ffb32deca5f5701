"""The page of two compared networks in headless Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import anylayer

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
NET = """input: "x" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }
layer { name: "NAME" type: "ReLU" bottom: "x" top: "relu" relu_param { negative_slope: SLOPE } }
layer { name: "twice" type: "Power" bottom: "relu" top: "twice" power_param { scale: 2 } }
layer { name: "all" type: "Reduction" bottom: "twice" top: "all" reduction_param { axis: 1 } }
"""
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of two networks whose first layer differs and has a name with markup."""
    folder = tmp_path_factory.mktemp("diff")
    for name, slope in (("a", "0"), ("b", "0.1")):
        text = NET.replace("NAME", HOSTILE).replace("SLOPE", slope)
        (folder / f"{name}.prototxt").write_text(text)
    anylayer.diff(folder / "a.prototxt", folder / "b.prototxt").save(folder / "page.html")
    return folder / "page.html"


@pytest.mark.parametrize("width", [1280, 400])
def test_page_marks_the_first_difference(browser: Browser, page_file: Path, width: int) -> None:
    said: list[str] = []
    page = browser.new_context(viewport={"width": width, "height": 800}).new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: said.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(page_file.as_uri())
    assert not said
    assert page.locator(".pair.first .name").all_text_contents() == [HOSTILE, HOSTILE]
    assert "Relu" in page.locator(".pair.first table").inner_text()
    assert page.locator(".pair:not(.heads)").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.select_option("#show", label="what differs")
    assert page.locator(".pair:not(.heads):visible").count() == 1
    page.select_option("#show", label="all nodes")
    page.fill("#search", "twice")
    assert page.locator("#count").inner_text() == "1 of 3 rows"
    page.locator(".pair:visible button.status").click()
    assert "power_param.scale" in page.locator(".pair:visible .more").inner_text()
