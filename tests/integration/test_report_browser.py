"""The page in a real browser: no errors, no requests, no sideways scrolling, light and dark."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from report_data import MODEL_CARD, curves, results

from cobalt.report import page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (on Debian: apt-get install chromium)"),
]

# Measures what a reader would notice, and leaves it in the page for --dump-dom.
PROBE = """<script>
const root = document.documentElement;
const css = (node, name) => getComputedStyle(node)[name];
const numbers = text => text.match(/[\\d.]+/g).map(Number);
function shade(text) {  // relative luminance
  const [r, g, b] = numbers(text).map(v => (v /= 255) <= 0.04 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function ground(node) {
  for (; node; node = node.parentElement) {
    if (numbers(css(node, "backgroundColor"))[3] !== 0) return css(node, "backgroundColor");
  }
  return "rgb(255, 255, 255)";
}
function contrast(node) {
  const [light, dark] = [shade(css(node, "color")), shade(ground(node))].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}
const written = node => [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
const texts = [...document.querySelectorAll("main *")].filter(node => !node.closest("svg") && written(node));
root.dataset.probe = JSON.stringify({
  width: innerWidth,
  scroll: root.scrollWidth,
  contrast: Math.min(...texts.map(contrast)),
  ground: shade(ground(document.body)),
  svgs: [...document.querySelectorAll("figure svg")].map(svg => svg.getBoundingClientRect().width),
  open: document.querySelectorAll("details[open]").length,
  texts: texts.length,
  requests: performance.getEntriesByType("resource").map(entry => entry.name),
});
</script></body>"""


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    path = folder / "report.html"
    page.write(path, results(folder), curves=curves(), model_card=MODEL_CARD)
    text = path.read_text()
    path.write_text(text.replace("</body>", PROBE))
    return path


def browse(report: Path, folder: Path, *more: str, width: int = 1200, address: str = "") -> tuple[dict, str]:
    """What the probe found, and what the browser wrote to its log."""
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", f"--window-size={width},1600",
        "--virtual-time-budget=3000", *more, "--dump-dom", f"{report.as_uri()}{address}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'data-probe="([^"]*)"', done.stdout)
    assert found, done.stderr[-2000:]
    return json.loads(found.group(1).replace("&quot;", '"')), done.stderr


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 500], ids=["desk", "phone"])
def test_the_page_reads_well(report, tmp_path, dark, width):
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    probe, log = browse(report, tmp_path, *scheme, width=width)
    assert "CONSOLE" not in log
    assert probe["requests"] == []
    assert probe["scroll"] <= probe["width"], "the page scrolls sideways"
    assert len(probe["svgs"]) == 3 and all(200 < each <= probe["width"] for each in probe["svgs"])
    assert probe["contrast"] >= 4.5, "WCAG AA for text"
    assert (probe["ground"] < 0.1) is dark
    assert probe["texts"] > 100


def test_an_address_opens_its_example(report, tmp_path):
    closed = re.findall(r'<details class="card example" id="([^"]+)">', report.read_text())
    before, _ = browse(report, tmp_path)
    after, _ = browse(report, tmp_path, address=f"#{closed[0]}")
    assert after["open"] == before["open"] + 1
