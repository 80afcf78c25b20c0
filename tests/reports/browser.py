"""A page in a real headless Chromium, measured by a probe that the test puts into a copy of it.

Windows of a desktop browser have a minimum width, so the page is shown in a frame of the width
asked for.
"""

import html
import json
import re
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTHS = (1280, 900, 400)
TEXT = "p, li, td, th, dd, dt, figcaption, code, h1, h2, h3"
"""Elements that hold text."""
SHORT = 20
"""Characters: shorter words have room in any readable column, and must not be broken."""
MIN_COLUMN = 80.0
"""Pixels: text of several lines in a narrower column cannot be read with ease."""
PROBE = """<script>
const errors = [];
window.addEventListener("error", event => errors.push(String(event.message || "a resource did not load")), true);
const said = console.error; console.error = (...words) => { errors.push(words.join(" ")); said(...words); };

// The words of an element's own text (lines may break after a hyphen), each with the tops of the lines it stands on.
function words(element) {
  const found = [];
  for (const node of element.childNodes) {
    if (node.nodeType !== Node.TEXT_NODE) continue;
    for (const match of node.data.matchAll(/[^\\s\\-\\/]+/g)) {
      const range = document.createRange();
      range.setStart(node, match.index); range.setEnd(node, match.index + match[0].length);
      const tops = [...range.getClientRects()].map(box => Math.round(box.top));
      found.push({ word: match[0], tops: [...new Set(tops)] });
    }
  }
  return found;
}

// The nearest ancestor that scrolls sideways, in which nothing is lost.
function scrolls(element) {
  for (let e = element; e; e = e.parentElement)
    if (["auto", "scroll"].includes(getComputedStyle(e).overflowX)) return true;
  return false;
}

function measured(element) {
  const box = element.getBoundingClientRect(), found = words(element);
  return {
    tag: element.tagName.toLowerCase(), text: element.textContent.trim().slice(0, 60),
    width: box.width, right: box.right, size: parseFloat(getComputedStyle(element).fontSize),
    lines: new Set(found.flatMap(each => each.tops)).size,
    broken: found.filter(each => each.tops.length > 1).map(each => each.word),
    clipped: !scrolls(element) && element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0,
    scrolls: scrolls(element),
  };
}

window.addEventListener("load", () => {
  const images = [...document.images];
  const found = {
    errors, width: window.innerWidth, scroll: document.scrollingElement.scrollWidth,
    images: images.map(image => [image.naturalWidth, image.getBoundingClientRect().width]),
    texts: [...document.querySelectorAll("%TEXT%")].map(measured),
  };
  parent.postMessage(JSON.stringify(found), "*");
});
</script>""".replace("%TEXT%", TEXT)
FRAME = """<!DOCTYPE html><meta charset="utf-8"><link rel="icon" href="data:,"><script>
window.addEventListener("message", event => {
  const out = document.createElement("pre"); out.id = "probe"; out.textContent = event.data; document.body.append(out);
});
</script><body style="margin:0"><iframe style="border:0;width:%dpx;height:%dpx" srcdoc="%s"></iframe>"""


def chromium():
    """Where the browser is; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def look(folder, page, *, width=400):
    """What the browser says about the text of a page: errors, images, every text with its width and
    lines, and its console.
    """
    copy = folder / "probed.html"
    probed = page.replace("<head>", f"<head>{PROBE}", 1)
    copy.write_text(framed(probed, width))
    result = _run(folder, copy, "--virtual-time-budget=5000", "--dump-dom")
    text = re.search(r'<pre id="probe">(\{.*?\})</pre>', result.stdout, re.DOTALL)
    assert text, "the probe did not run"
    found = json.loads(html.unescape(text[1]))
    found["console"] = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
    return found


def photograph(folder, page, to, *, width, height=4200):
    """Write a picture of a page of this width, for people to view."""
    copy = folder / "framed.html"
    copy.write_text(framed(page, width, height))
    _run(folder, copy, f"--screenshot={to}", height=height)


def framed(page, width, height=4000):
    """The page in a frame of this size."""
    return FRAME % (width, height, html.escape(page, quote=True))


def complaints(found, *, width=400):
    """What is wrong with a page of this width, from what `look` found."""
    assert found["width"] == width
    problems = [f"error: {text}" for text in [*found["errors"], *found["console"]]]
    problems += [f"{found['scroll']} px wide"] * (found["scroll"] > width)
    problems += ["an image is missing"] * any(
        natural == 0 or shown == 0 for natural, shown in found["images"]
    )
    for text in found["texts"]:
        problems += [f"{fault}: {text['tag']} {text['text']!r}" for fault in _faults(text, width)]
    return problems


def _faults(text, width):
    """What is wrong with one text."""
    if text["size"] < 13.0:
        yield "small type"
    if text["clipped"] or (text["right"] > width and not text["scrolls"]):
        yield "clipped"
    if any(len(word) <= SHORT for word in text["broken"]):
        yield "broken words"
    if text["lines"] > 1 and text["width"] < MIN_COLUMN:
        yield "narrow column"


def _run(folder, page, *more, height=4200):
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--enable-logging=stderr",
        f"--window-size=1400,{height}",
        f"--user-data-dir={folder / 'profile'}",
    ]
    command = [chromium(), *options, *more, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
