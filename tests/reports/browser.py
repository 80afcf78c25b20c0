"""A page in a real headless Chromium, looked at by a probe that the test puts into a copy of it.

Windows of a desktop browser have a least width, so that the page stands in a frame of the width
asked for.
"""

import html
import json
import re
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROBE = """<script>
const errors = [];
window.addEventListener("error", event => errors.push(String(event.message || "a resource did not load")), true);
const said = console.error; console.error = (...words) => { errors.push(words.join(" ")); said(...words); };
window.addEventListener("load", () => {
  const images = [...document.images];
  const found = {
    errors, width: window.innerWidth, scroll: document.scrollingElement.scrollWidth,
    images: images.map(image => [image.naturalWidth, image.getBoundingClientRect().width]),
    fonts: [...document.querySelectorAll("p, li, td, th, dd, dt, figcaption, code")].map(e => parseFloat(getComputedStyle(e).fontSize)),
  };
  parent.postMessage(JSON.stringify(found), "*");
});
</script>"""
FRAME = """<!DOCTYPE html><meta charset="utf-8"><link rel="icon" href="data:,"><script>
window.addEventListener("message", event => {
  const out = document.createElement("pre"); out.id = "probe"; out.textContent = event.data; document.body.append(out);
});
</script><body><iframe style="border:0;width:%dpx;height:4000px" srcdoc="%s"></iframe>"""


def chromium():
    """Where the browser is; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def look(folder, page, *, width=400):
    """What the browser says about the text of a page: errors, images, widths, sizes of type, and
    its console.
    """
    copy = folder / "probed.html"
    probed = page.replace("<head>", f"<head>{PROBE}", 1)
    copy.write_text(FRAME % (width, html.escape(probed, quote=True)))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--virtual-time-budget=5000",
    ]
    options += [
        "--enable-logging=stderr",
        "--window-size=1400,4200",
        f"--user-data-dir={folder / 'profile'}",
    ]
    command = [chromium(), *options, "--dump-dom", copy.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    text = re.search(r'<pre id="probe">(\{.*?\})</pre>', result.stdout, re.DOTALL)
    assert text, "the probe did not run"
    found = json.loads(html.unescape(text[1]))
    found["console"] = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
    return found
