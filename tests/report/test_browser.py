"""Pages in a real browser without a window: `make test-report`."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from moorage.cli import main
from tests.doors.sim import sweep_page
from tests.house.source import ROOT

from .pages import COMMANDS
from .test_page import EVIL, evil_page

pytestmark = [pytest.mark.report, pytest.mark.filterwarnings("default")]  # of selenium itself

AXE = """
const end = arguments[0];
axe.run().then(found => end(found.violations.map(one => one.id + ": " + one.nodes[0].html)))
"""
INK = """
const [canvas] = arguments, colours = new Set();
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
for (let at = 0; at < pixels.length; at += 4)
  if (pixels[at + 3]) colours.add(pixels.slice(at, at + 3).join());
return colours.size
"""
ZOOM = """
const {plots} = document.querySelector("[data-lines]");
return plots.map(plot => [plot.scales.x.min, plot.scales.x.max])
"""
THEME = "return document.documentElement.dataset.theme ?? ''"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    driver.set_script_timeout(300)  # axe takes half a minute for 5,000 nodes on a busy machine
    try:
        yield driver
    finally:
        driver.quit()


class Opened:
    """A page in the browser."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.log: list[dict[str, Any]] = []

    def open(self, path: Path, scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.browser.get(path.as_uri())

    def all(self, selector: str) -> list[Any]:
        return list(self.browser.find_elements("css selector", selector))

    def one(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def choose(self, selector: str, value: str) -> None:
        script = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))"
        self.browser.execute_script(script, self.one(selector), value)

    def violations(self) -> list[str]:
        self.browser.execute_script((files("axe_core_python") / "axe.min.js").read_text("utf-8"))
        return list(self.browser.execute_async_script(AXE))

    def errors(self) -> list[str]:
        return [one["message"] for one in self.browser.get_log("browser")]


@pytest.fixture
def page(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Any]:
    monkeypatch.chdir(ROOT)
    opened = Opened(browser)

    def make(*command: str, scheme: str = "light") -> Opened:
        assert main([*command, "-o", "html"]) < 2
        (path := tmp_path / "page.html").write_text(capsys.readouterr().out)
        opened.open(path, scheme)
        return opened

    yield make
    assert opened.errors() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_is_accessible(name: str, scheme: str, page: Any) -> None:
    opened = page(*COMMANDS[name], scheme=scheme)
    assert opened.violations() == []
    background = opened.one("body").value_of_css_property("background-color")
    assert background == {"light": "rgba(246, 246, 243, 1)", "dark": "rgba(22, 22, 21, 1)"}[scheme]


def test_the_button_switches_colours(page: Any) -> None:
    opened = page(*COMMANDS["replay"])
    canvas = opened.one("canvas").screenshot_as_base64
    opened.one("#theme").click()
    assert opened.one("#theme").text == "Light colours"
    assert opened.one("section").value_of_css_property("background-color") == "rgba(32, 32, 31, 1)"
    assert opened.one("canvas").screenshot_as_base64 != canvas


def test_timelines_are_drawn_and_zoom(page: Any) -> None:
    opened = page(*COMMANDS["replay"])
    canvases = opened.all(".plot canvas")
    assert len(canvases) == 2
    assert all(opened.browser.execute_script(INK, canvas) > 8 for canvas in canvases)
    (low, high), _ = opened.browser.execute_script(ZOOM)
    assert (low, round(high / 86_400)) == (0, 149)
    opened.one("[data-zoom=in]").click()
    first, second = opened.browser.execute_script(ZOOM)
    assert first == second == [high / 4, 3 * high / 4]
    opened.one("[data-zoom=later]").click()
    assert opened.browser.execute_script(ZOOM)[0] == [high / 2, high]
    opened.one("#theme").click()  # keeps the zoom
    assert opened.browser.execute_script(ZOOM)[0] == [high / 2, high]
    opened.one("[data-zoom=all]").click()
    assert opened.browser.execute_script(ZOOM)[1] == [0, high]


def test_dragging_zooms_all_timelines(page: Any) -> None:
    from selenium.webdriver import ActionChains

    opened = page(*COMMANDS["replay"])
    over = opened.one(".u-over")
    opened.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", over)
    ActionChains(opened.browser).move_to_element(over).click_and_hold().move_by_offset(
        200, 0
    ).release().perform()
    first, second = opened.browser.execute_script(ZOOM)
    assert first == second
    assert first[1] - first[0] < 60 * 86_400


def test_a_series_can_be_hidden(page: Any) -> None:
    opened = page(*COMMANDS["replay"])
    button = opened.one("figure .legend button")
    before = opened.one(".plot canvas").screenshot_as_base64
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert opened.one(".plot canvas").screenshot_as_base64 != before


def test_the_heat_map_has_a_square_per_node(page: Any) -> None:
    command = ["simulate", "--synthetic", "nodes=30,pods=200,zones=3"]
    opened = page(*command)
    assert len(opened.all(".map rect")) == 30
    assert [one.text for one in opened.all(".map p")] == [f"zone-{at} · 10 nodes" for at in range(3)]
    fills = {one.value_of_css_property("fill") for one in opened.all(".map rect")}
    assert len(fills) > 2
    opened.choose("[name=resource]", "2")
    assert {one.value_of_css_property("fill") for one in opened.all(".map rect")} != fills
    opened.choose("[name=group]", "")
    assert len(opened.all(".map p")) == 1
    opened.choose("[name=search]", "node-00007")
    assert len(opened.all(".map rect")) == 1


def test_the_keyboard_moves_in_the_heat_map(page: Any) -> None:
    opened = page(*COMMANDS["simulate"])
    place, readout = opened.one(".map"), opened.one(".readout")
    place.send_keys("\ue014")  # right: the first is chosen when the map gets the focus
    assert readout.text.startswith("worker-1 · cpu 26.2 %")
    place.send_keys("\ue010")  # end
    assert readout.text.startswith("node-1 · ")
    assert len(opened.all("rect.chosen")) == 1


def test_tables_are_filtered_and_sorted(page: Any) -> None:
    opened = page(*COMMANDS["simulate"])
    (table,) = [one for one in opened.all("table.grid") if "Workloads" in one.text]
    selector = f"[data-filters='{table.get_attribute('id')}']"

    def shown() -> list[str]:
        rows = table.find_elements("css selector", "tbody tr")
        return [row.find_elements("css selector", "td")[1].text for row in rows if row.is_displayed()]

    whole = shown()
    opened.one(f"{selector} input").send_keys("nginx")
    assert shown() == ["deployment/nginx-deploy"]
    assert f"1 of {len(whole)} rows shown" in opened.one(f"{selector} output").text
    opened.one(f"{selector} input").clear()
    opened.choose(f"{selector} [data-column='2']", "without a node")
    assert shown() == ["replicaset/gpu-rs-03", "deployment/nginx-deploy"]
    opened.choose(f"{selector} [data-column='2']", "")
    press = table.find_elements("css selector", "thead button")[1]
    press.click()
    assert shown() == sorted(whole)
    assert press.find_element("xpath", "..").get_attribute("aria-sort") == "ascending"
    press.click()
    assert shown() == sorted(whole, reverse=True)
    table.find_elements("css selector", "thead button")[3].click()  # a number: the greatest first
    assert shown()[0] == "replicaset/gpu-rs-03"


def test_measures_of_a_sweep_are_chosen(page: Any) -> None:
    opened = page(*COMMANDS["sweep"])
    assert "placed" in opened.one(".intervals svg").get_attribute("aria-label")
    assert len(opened.all(".intervals circle")) == 2
    opened.choose(".intervals [name=configuration]", "default")
    assert len(opened.all(".intervals circle")) == 1
    opened.choose(".intervals [name=measure]", "pending")
    assert "pending" in opened.one(".intervals svg").get_attribute("aria-label")


def test_a_series_is_a_line_chart(browser: Any, tmp_path: Path) -> None:
    mean = {"timeline": "t", "change": "none", "runs": 3, "least": 0.0, "greatest": 9.0, "margin": 0.5}
    means = [
        mean | {"configuration": name, "measure": f"use_at_{at}", "mean": float(at + (name == "b"))}
        for at in (1, 2, 3)
        for name in "ab"
    ]
    (path := tmp_path / "series.html").write_text(
        sweep_page({"means": means, "runs": []}, ["4 replays"]).html()
    )
    opened = Opened(browser)
    opened.open(path)
    assert len(opened.all(".intervals polyline")) == 2
    assert [one.text for one in opened.all(".intervals .legend li")] == ["a", "b"]
    assert opened.violations() == []
    opened.choose(".intervals [name=configuration]", "b")
    assert len(opened.all(".intervals polyline")) == 1


def test_texts_of_an_attacker_do_nothing(browser: Any, tmp_path: Path) -> None:
    (path := tmp_path / "evil.html").write_text(evil_page())
    opened = Opened(browser)
    opened.open(path)
    assert browser.title == EVIL
    opened.one(".map").send_keys("\ue010")
    assert EVIL in opened.one(".readout").text
    assert opened.all("img") == []
    assert len(opened.all(".intervals circle")) == 2
    assert opened.errors() == []


def test_scripts_of_others_are_refused(browser: Any, tmp_path: Path) -> None:
    """The policy holds even if something were not escaped."""
    text = evil_page().replace("<footer>", "<footer><script>document.title = 'mine'</script>")
    (path := tmp_path / "open.html").write_text(text)
    opened = Opened(browser)
    opened.open(path)
    assert browser.title == EVIL
    assert "Content Security Policy" in opened.errors()[0]


def test_paper_is_light_and_keeps_the_charts(page: Any) -> None:
    opened = page(*COMMANDS["replay"], scheme="dark")
    before = opened.one(".plot canvas").screenshot_as_base64
    pdf = base64.b64decode(opened.browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF")
    opened.browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert opened.browser.execute_script(THEME) == "light"
    assert opened.one(".u-wrap").value_of_css_property("width") == "660px"
    opened.browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert opened.browser.execute_script(THEME) == ""
    assert opened.one(".plot canvas").screenshot_as_base64 == before


def test_a_narrow_window_has_no_horizontal_scroll(page: Any) -> None:
    opened = page(*COMMANDS["replay"])
    opened.browser.set_window_size(520, 900)
    wide = "return [document.documentElement.scrollWidth, innerWidth]"
    scroll, inner = opened.browser.execute_script(wide)
    opened.browser.set_window_size(1200, 900)
    assert scroll <= inner


def test_thousands_of_nodes_are_usable(page: Any) -> None:
    opened = page("simulate", "--synthetic", "nodes=5000,pods=10000,zones=3")
    assert len(opened.all(".map rect")) == 5000
    opened.choose("[name=search]", "node-00")
    assert len(opened.all(".map rect")) == 1000
    assert opened.violations() == []
