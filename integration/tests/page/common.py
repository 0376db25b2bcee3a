"""What both scripts need: the browser, the server's own words, and what must never be seen in a console."""

import http.client
import json
import os
import socket
import subprocess
import sys
import urllib.parse
from contextlib import contextmanager

from playwright.sync_api import sync_playwright

PAGE, DNS, FOLDER, CHROMIUM, SHOTS = sys.argv[1:6]
URL = f"{PAGE}/"
# Host and port of the API, which is asked without TLS.
HTTP = urllib.parse.urlsplit(PAGE).netloc
# Longest wait for what must come, in milliseconds: seconds are usual, the rest is for a busy machine.
PATIENCE = 60_000

# Before anything else runs: what the policy forbade and how long tasks took, in the page itself.
WATCH = """
  window.seen = { violations: [], tasks: [] };
  addEventListener("securitypolicyviolation", (e) => window.seen.violations.push(`${e.violatedDirective} ${e.blockedURI}`));
  new PerformanceObserver((list) => window.seen.tasks.push(...list.getEntries().map((e) => [e.startTime, e.duration])))
    .observe({ type: "longtask", buffered: true });
"""


# Landmarks, headings, names of controls, and the contrast of words (WCAG 2.2, 1.4.3: 4.5 to 1).
READABLE = """() => {
  const faults = [];
  if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");
  for (const part of ["header", "nav", "main", "footer"]) if (!document.querySelector(part)) faults.push(`no ${part}`);
  let level = 1;
  for (const heading of document.querySelectorAll("main :is(h2, h3, h4)")) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1) faults.push(`heading ${heading.textContent} skips a level`);
    level = next;
  }
  for (const control of document.querySelectorAll("input, select, button")) {
    const isNamed = control.labels?.length > 0 || control.getAttribute("aria-label") || control.textContent.trim();
    if (!isNamed) faults.push(`${control.id} has no name`);
  }
  const parse = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest("noscript, dialog:not([open]), [hidden], .hidden, .skip, option, datalist, svg")) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faults.push(`${element.className || element.tagName} "${element.textContent.slice(0, 20)}" ${contrast.toFixed(2)}`);
  }
  return faults;
}"""


class Page:
    """A page with all that it complained of."""

    def __init__(self, browser, width=1440, height=1000, scheme="light"):
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", ignore_https_errors=True)
        self.context.add_init_script(WATCH)
        self.faults = []
        self.lost = False
        self.wrong = False
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", self.console)
        self.page.on("pageerror", lambda error: self.faults.append(f"uncaught: {error}"))
        self.page.on("request", self.request)
        self.page.goto(URL)
        self.arrived()

    def arrived(self):
        """Waits until the page shows what it is for."""
        self.until("() => document.querySelector('#services-grid .row[data-index]:not(.waiting):not([hidden])')")

    def console(self, message):
        # The browser itself reports a server that is gone; the page cannot prevent that.
        if self.lost and "net::ERR" in message.text:
            return
        # The same holds for an invalid request, which the API answers with one of these.
        if self.wrong and any(f"status of {status}" in message.text for status in (400, 403, 404, 412, 422)):
            return
        if message.type in ("error", "warning"):
            self.faults.append(f"console: {message.text}")

    def request(self, request):
        if not request.url.startswith(URL):
            self.faults.append(f"asked elsewhere: {request.url}")

    def text(self, selector):
        return self.page.locator(selector).first.text_content()

    def texts(self, selector):
        return self.page.locator(selector).all_text_contents()

    def until(self, expression, argument=None):
        self.page.wait_for_function(expression, arg=argument, polling=50)

    def shot(self, name):
        self.page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)

    def sideways(self):
        """How many pixels the page is wider than its window."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def close(self):
        self.faults += [f"policy: {said}" for said in self.page.evaluate("seen.violations")]
        self.context.close()
        assert not self.faults, self.faults


@contextmanager
def browser():
    with sync_playwright() as play:
        # Root has no sandbox to drop into.
        started = play.chromium.launch(executable_path=CHROMIUM, headless=True, args=["--no-sandbox"])
        yield started
        started.close()


def get(path):
    """What the server says on a path of the API: status, and the JSON."""
    connection = http.client.HTTPConnection(HTTP, timeout=30)
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def state():
    return get("/v1/state")[1]


def explained(**asked):
    return get("/v1/explain?" + urllib.parse.urlencode(asked))


def command(method, path, body):
    """A command on the control socket, as an operator's program gives it."""
    connection = http.client.HTTPConnection("fairway")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(f"{FOLDER}/data/control.sock")
    connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    said = json.loads(response.read())
    assert response.status < 300, said
    return said


def answer(name):
    """The addresses that a client of DNS is given, as dig prints them."""
    host, port = DNS.rsplit(":", 1)
    asked = ["dig", "+short", "+tries=1", "+time=5", f"@{host}", "-p", port, name, "A"]
    return sorted(subprocess.run(asked, check=True, capture_output=True, text=True, timeout=30).stdout.split())


def sent(method, path, body, **headers):
    """A write over HTTP: status and the JSON."""
    connection = http.client.HTTPConnection(HTTP, timeout=60)
    connection.request(method, path, json.dumps(body), {"Content-Type": "application/json", **headers})
    response = connection.getresponse()
    return response.status, json.loads(response.read() or b"{}")


def written(path, text):
    """Puts a file in the place of another one, whole."""
    with open(f"{path}.new", "w") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def order(what):
    """Has the parent do what only it can."""
    print(f"@{what}", flush=True)
    assert sys.stdin.readline() == "done\n"


def equal(shown, wanted, what):
    assert shown == wanted, f"{what}: the page shows {shown!r}, the server says {wanted!r}"
