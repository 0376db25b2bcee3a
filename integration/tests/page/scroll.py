"""Scrolls 10,000 services in every way there is: what is drawn must be right, and no more than is in view. Says how long the main
thread's tasks took meanwhile, by the wall clock (PerformanceObserver, longtask) and of a core (the browser's own trace): figures of the
machine, too, so that nothing is asserted of them."""

import json
import time

from common import Page, SHOTS, browser, equal, state

# A frame at a time through the list: by small steps as a wheel does, then by jumps as a dragged bar does.
SCROLL = """async ([step, frames]) => {
  const grid = document.querySelector("#services-grid");
  const began = performance.now();
  for (let n = 0; n < frames; n += 1) {
    grid.scrollTop = (grid.scrollTop + step) % (grid.scrollHeight - grid.clientHeight);
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - began;
}"""


def settled(view, name):
    """Waits until the row of this name is drawn, which is asked of the worker."""
    view.until("name => [...document.querySelectorAll('#services-grid .row:not(.waiting):not([hidden]) .name')].some((n) => n.textContent === name)", name)


def quiet_when_nothing_changes(view):
    """Two readings of the whole state that say the same touch no row."""
    view.page.evaluate("""() => {
      window.touched = 0;
      window.watching = new MutationObserver((all) => (window.touched += all.length));
      watching.observe(document.querySelector("#services-grid"), { subtree: true, childList: true, characterData: true, attributes: true });
    }""")
    for _ in range(2):
        before = view.text("#config-body")
        # By itself the page reads ten times as seldom as a reading takes, which is long on a busy machine.
        view.page.evaluate("document.querySelector('#retry').click()")
        view.until("before => document.querySelector('#config-body').textContent !== before", before)
    equal(view.page.evaluate("watching.disconnect(), touched"), 0, "rows touched by readings that say the same")


def longest(path):
    """The longest tasks of the main thread in a trace, in milliseconds: by the wall clock, and of a core."""
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    mains = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["args"]["name"] == "CrRendererMain"}
    tasks = [e for e in events if e["ph"] == "X" and e["name"].endswith("RunTask") and (e["pid"], e["tid"]) in mains]
    return [max((e.get(kind, 0) for e in tasks), default=0) / 1_000 for kind in ("dur", "tdur")]


def main():
    with browser() as started:
        view = Page(started)
        view.until("() => document.querySelector('#services-count').textContent === '10,000 services'")
        loaded = view.page.evaluate("seen.tasks.splice(0)")
        started.start_tracing(page=view.page, path=f"{SHOTS}/many.trace.json", categories=["toplevel", "disabled-by-default-devtools.timeline"])
        for step, frames, what in [(120, 300, "wheel"), (9_973, 200, "bar"), (-1, 1, "back")]:
            took = view.page.evaluate(SCROLL, [step, frames])
            print(f"page: {what}: {frames} frames in {took:.0f} ms")
        view.page.focus("#services-grid")
        view.page.keyboard.press("End")
        settled(view, "s09999.page.test.")
        view.page.keyboard.press("Home")
        settled(view, "s00000.page.test.")
        drawn = view.page.locator("#services-grid .rows > .row").count()
        assert drawn < 60, f"{drawn} rows exist; only those in view should"
        view.page.fill("#filter", "s0777 c0")
        view.until("() => / of 10,000 services$/.test(document.querySelector('#services-count').textContent)")
        wanted = sorted(
            name for pool in state()["pools"] for name in pool["names"]
            if "s0777" in name and any("c0" in m["cluster"] for m in pool["members"])
        )
        equal(view.texts("#services-grid .rows > .row:not([hidden]) .name"), wanted, "what fits the filter")
        view.page.fill("#filter", "")
        # A further reading of the whole state.
        end = time.monotonic() + 8
        while time.monotonic() < end:
            view.page.evaluate(SCROLL, [400, 30])
        started.stop_tracing()
        tasks = view.page.evaluate("seen.tasks")
        nodes = view.page.evaluate("document.querySelectorAll('*').length")
        assert nodes < 3_000, f"{nodes} elements exist; those of 10,000 services should not"
        quiet_when_nothing_changes(view)
        view.shot("many-1440-light")
        wall, core = longest(f"{SHOTS}/many.trace.json")
        first = max((took for _, took in loaded), default=0)
        print(f"page: 10,000 services: tasks over 50 ms while scrolling: {len(tasks)}, the longest task {wall:.0f} ms, of a core {core:.0f} ms; while loading {len(loaded)}, {first:.0f} ms; {nodes} elements")
        view.close()


main()
