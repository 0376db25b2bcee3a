"""Looks at the page of a small server as its users do, and holds what it shows against what the server says.

Argument after the common ones: the port that gateways are probed at, on 127.0.1.1 (eu1), 127.0.2.1 (us1), 127.0.3.1 (ap1).
"""

import random
import re
import socket
import struct
import sys
import threading

from common import DNS, FOLDER, PATIENCE, Page, READABLE, browser, command, equal, explained, order, state

PORT = int(sys.argv[6])
CLUSTERS = {"eu1": "127.0.1.1", "us1": "127.0.2.1", "ap1": "127.0.3.1"}
HOSTILE = "<img src=x onerror=\"document.title='owned'\"> planned work"


class Gateway:
    """Something that accepts connections, until it is closed: then they are refused."""

    def __init__(self, address):
        self.listener = socket.create_server((address, PORT))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                self.listener.accept()[0].close()
        except OSError:
            pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def ask_dns(name, count):
    """Asks for A records as so many client networks (RFC 7871), and waits for each answer."""
    host, port = DNS.rsplit(":", 1)
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.connect((host, int(port)))
    link.settimeout(5)
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.rstrip(".").split(".")) + b"\0"
    for _ in range(count):
        subnet = struct.pack("!HHHBB", 8, 7, 1, 24, 0) + bytes(random.choices(range(1, 220), k=3))
        options = b"\0" + struct.pack("!HHIH", 41, 1232, 0, len(subnet)) + subnet
        link.send(struct.pack("!6H", random.randrange(65536), 0, 1, 0, 0, 1) + labels + struct.pack("!HH", 1, 1) + options)
        link.recv(4096)


def push_loads(step):
    for cluster, load in {"eu1": 520 + 40 * (step % 3), "us1": 310 + 25 * (step % 4), "ap1": 890 - 30 * (step % 2)}.items():
        command("PUT", f"/v1/load/{cluster}", {"load": load, "validFor": "10m"})


def shares(said):
    """The words for a row's bars, taken apart: kind -> cluster -> percent."""
    parts = {}
    for part in said.split("; "):
        kind, _, rest = part.partition(" ")
        parts[kind] = None if rest == "unknown" else {w.split(" ")[0]: float(w.split(" ")[1]) for w in rest.split(", ")}
    return parts


def values_are_those_of_the_server(view):
    """Every row beside `/v1/state`, taken until both are of one moment."""
    now = state()
    view.until("id => document.querySelector('#config-body').textContent.includes(id)", now["config"]["runtimeState"])
    equal(view.text("#version"), now["version"], "version")
    pools = {pool["name"]: pool for pool in now["pools"]}
    wanted = sorted((name, pool["name"]) for pool in now["pools"] for name in pool["names"])
    rows = view.page.locator("#services-grid .rows > .row:not([hidden])")
    shown = {row.locator(".name").text_content(): row for row in rows.all()}
    equal(sorted(shown), [name for name, _ in wanted], "names")
    for name, pool in wanted:
        members = pools[pool]["members"]
        shown_shares = shares(shown[name].locator(".shares .hidden").text_content())
        for kind in ("declared", "arrived"):
            said = {m["cluster"]: m["share"][kind] for m in members}
            equal(shown_shares[kind], None if None in said.values() else said, f"{name} {kind}")
        up = sum(m["eligibility"] in ("up", "unknown") for m in members)
        assert f"{up} of {len(members)} up" in shown[name].locator(".cell.health").text_content(), name
    rows = view.page.locator("#clusters-grid .rows > .row:not([hidden])").all()
    equal([row.locator(".name").text_content() for row in rows], [c["name"] for c in now["clusters"]], "clusters")
    equal(view.text("#tiles .tile:nth-child(1) b"), str(len(wanted)), "names counted")
    assert f"#{now['config']['number']}" in view.text("#tiles"), "its number"
    assert now["config"]["snapshot"] in view.text("#config-body"), "snapshot"


def answered_shares_arrive(view):
    """Queries of many clients are counted within ten seconds, and the page tells what the server counted."""
    ask_dns("shop.page.test", 400)
    view.until("() => /answered eu1 [1-9]/.test(document.querySelector('#services-grid').textContent)")
    now = {m["cluster"]: m["share"]["answered"] for p in state()["pools"] if p["name"] == "shop" for m in p["members"]}
    row = view.page.locator("#services-grid .row", has_text="shop.page.test")
    equal(shares(row.locator(".shares .hidden").text_content())["answered"], now, "answered")
    load = view.page.locator("#clusters-grid .row", has_text="eu1").locator(".load b").text_content()
    words = next(c["load"] for c in state()["clusters"] if c["name"] == "eu1")
    equal(load, f"{words[0]['permille'] / 10:.1f} %", "load of eu1")


def explain_box(view):
    """What is typed is asked, and every member's reason is the server's."""
    for client in ("20.0.0.0/24", "198.51.100.0/24", ""):
        view.page.fill("#ask-name", "shop.page.test")
        view.page.fill("#ask-client", client)
        view.page.keyboard.press("Enter")
        view.until(
            "client => document.querySelector('.verdict h3')?.textContent.endsWith(client)",
            f"client {client}" if client else "nothing of itself",
        )
        asked = {"name": "shop.page.test", "type": "A"} | ({"client": client} if client else {})
        _, said = explained(**asked)
        records = [f"{r['name']} {r['ttl']} {r['type']} {r['data']}" for r in said["answer"]]
        equal(view.texts(".records code"), records, "records")
        rows = view.page.locator("table.members tbody tr").all()
        pool = said["steps"][0]["pool"]
        shown = [tuple(row.locator("th, td").nth(n).text_content() for n in (0, 1, 2)) for row in rows]
        equal(shown, [(m["cluster"], "in" if m["in"] else "out", m["reason"]) for m in pool["members"]], "members")
        equal(view.texts(".filters-chain li"), pool["policySteps"], "filters")
    view.wrong = True
    view.page.fill("#ask-name", "<script>alert(1)</script>..x")
    view.page.fill("#ask-type", "NOTYPE")
    view.page.click("#explain-form button")
    view.page.wait_for_selector("#explain-result .problem")
    _, problem = explained(name="<script>alert(1)</script>..x", type="NOTYPE")
    equal(view.text("#explain-result .problem"), problem["detail"], "a fault of the question")
    view.page.fill("#ask-type", "A")
    view.wrong = False


def transition_impact(view, gateways):
    """A gateway closes: the list names cluster, cause and moved answers; it opens: the opposite one."""
    gateways.pop("eu1").close()
    view.page.wait_for_selector("#flips-list [data-to=down][data-clusters=eu1]")
    impact = view.text("#flips-list [data-to=down][data-clusters=eu1]")
    for part in ("eu1 is down", "connection refused", "3 names of 2 pools answered otherwise", "shop.page.test.", "pay"):
        assert part in impact, (part, impact)
    assert re.search(r"eu1\s*100\.0 % → 0\.0 %", impact), impact
    view.until("() => document.querySelector('#flips-live').textContent.includes('eu1 is down')")
    view.until("() => document.querySelector('#services-grid .chip[data-standing=down]')?.textContent.includes('eu1')")
    view.until("() => document.querySelector('#tiles').textContent.includes('2 / 3')")
    values_are_those_of_the_server(view)
    view.page.evaluate("scrollTo(0, 0)")
    view.shot("flip-1440-light")
    view.page.select_option("#which", "trouble")
    view.until("() => document.querySelector('#services-count').textContent === '3 of 4 services'")
    view.page.select_option("#which", "all")
    gateways["eu1"] = Gateway(CLUSTERS["eu1"])
    view.page.wait_for_selector("#flips-list > li:first-child[data-to=up][data-clusters=eu1]")
    view.until("() => document.querySelector('#tiles').textContent.includes('3 / 3')")


def filter_and_keyboard(view):
    """From the first Tab to a service at length and back, without a mouse."""
    page = view.page
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.reload()
    view.until("() => document.querySelector('#services-grid .row[data-index]:not(.waiting):not([hidden])')")
    page.keyboard.press("Tab")
    equal(page.evaluate("document.activeElement.className"), "skip", "the first stop")
    assert page.evaluate("document.activeElement.getBoundingClientRect().top >= 0"), "the skip link is in view"
    page.keyboard.press("Enter")
    equal(page.evaluate("document.activeElement.id"), "main", "where the skip link leads")
    page.keyboard.press("Tab")
    equal(page.evaluate("document.activeElement.id"), "filter", "the next stop")
    page.keyboard.type("PAGE pay")
    view.until("() => document.querySelector('#services-count').textContent === '1 of 4 services'")
    equal(view.texts("#services-grid .rows > .row:not([hidden]) .name"), ["pay.page.test."], "what fits")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.press("Delete")
    view.until("() => document.querySelector('#services-count').textContent === '4 services'")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    equal(page.evaluate("document.activeElement.id"), "services-grid", "the list is a stop")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "focus is seen"
    page.keyboard.press("ArrowDown")
    row = page.evaluate("document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).textContent")
    assert row.startswith("shop.page.test."), row
    page.keyboard.press("Enter")
    page.wait_for_selector("#service[open] #service-members tbody tr")
    equal(view.text("#service-title"), "shop.page.test.", "the service at length")
    equal(page.locator("#service-members tbody th").all_text_contents(), ["eu1", "us1", "ap1"], "its members")
    assert page.evaluate("document.activeElement.closest('dialog') !== null"), "focus is in the dialog"
    view.page.screenshot(path=f"{sys.argv[5]}/service-1440-light.png")
    page.keyboard.press("Escape")
    equal(page.evaluate("document.activeElement.id"), "services-grid", "focus comes back")


def overrides_and_reload(view):
    """A reason with markup in it is a text; a rejected change is shown with its errors."""
    said = command("POST", "/v1/overrides", {"scope": "ap1", "action": "drain", "reason": HOSTILE, "forSecs": 3600})
    view.page.wait_for_selector("#overrides-body table")
    row = view.page.locator("#overrides-body tbody tr")
    assert HOSTILE in row.text_content() and said["id"] in row.text_content(), row.text_content()
    assert re.search(r"ends in (59 min|1 h)", row.text_content()), row.text_content()
    first = view.text(".countdown")
    view.until("first => document.querySelector('.countdown').textContent !== first", first)
    assert view.page.locator("#overrides-body img").count() == 0 and view.page.title() == "Fairway"
    view.until("() => document.querySelector('#clusters-grid').textContent.includes('drained')")
    path = f"{FOLDER}/fairway.yaml"
    with open(path) as file:
        good = file.read()
    write(path, good.replace("policy: weighted", "polcy: weighted"))
    view.page.wait_for_selector("#flips-list [data-to=refused]")
    view.until("() => document.querySelector('#config-body').textContent.includes('refused')")
    faults = state()["config"]["lastReload"]["errors"]
    equal(view.texts("#config-body .faults li"), faults, "faults")
    values_are_those_of_the_server(view)
    view.page.evaluate("scrollTo(0, 0)")
    view.shot("refused-1440-light")
    write(path, good)
    view.page.wait_for_selector("#flips-list [data-to=reload]")
    view.until("() => !document.querySelector('#config-body .problem')")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def absence(view):
    """The server goes: the page says so and how old it is, and comes back by itself."""
    entries = view.page.locator("#flips-list > li").count()
    view.lost = True
    order("stop")
    view.page.wait_for_selector("#banner:not([hidden])")
    assert "The server is gone" in view.text("#banner-text")
    view.until("() => /What you see is .* old/.test(document.querySelector('#link-text').textContent)")
    view.page.evaluate("scrollTo(0, 0)")
    view.shot("gone-1440-light")
    order("start")
    # It may be back by itself already: then there is no button any more.
    view.page.evaluate("() => document.querySelector('#banner:not([hidden]) #retry')?.click()")
    view.page.wait_for_selector("#link[data-link=live]")
    view.page.wait_for_selector("#banner", state="hidden")
    view.until("() => document.querySelector('#flips-list').textContent.includes('events were missed')")
    assert view.page.locator("#flips-list > li").count() > entries, "earlier events are still shown"
    values_are_those_of_the_server(view)
    view.lost = False


def other_windows(started):
    """A phone, a wall, and the dark; in each the page stays within its window and can be read."""
    for width, height, scheme in [(360, 800, "light"), (360, 800, "dark"), (768, 1000, "dark"), (1440, 1000, "dark"), (2560, 1300, "light"), (2560, 1300, "dark")]:
        view = Page(started, width, height, scheme)
        view.page.fill("#ask-name", "shop.page.test")
        view.page.fill("#ask-client", "20.0.0.0/24")
        view.page.click("#explain-form button")
        view.page.wait_for_selector(".verdict")
        view.page.wait_for_selector("#flips-list .story")
        view.page.wait_for_selector("#clusters-grid .row:not(.waiting) .name")
        equal(view.sideways(), 0, f"pixels beyond {width}")
        equal(view.page.evaluate(READABLE), [], f"what cannot be read at {width} in {scheme}")
        cut = "() => [...document.querySelectorAll('.rows > .row:not([hidden])')].filter((r) => r.scrollHeight > r.clientHeight).map((r) => r.textContent)"
        equal(view.page.evaluate(cut), [], f"rows that are cut at {width}")
        ground = view.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(13, 18, 24)") == (scheme == "dark"), ground
        view.page.evaluate("scrollTo(0, 0)")
        view.shot(f"page-{width}-{scheme}")
        view.close()


def main():
    gateways = {name: Gateway(address) for name, address in CLUSTERS.items()}
    for step in range(3):
        push_loads(step)
    with browser() as started:
        view = Page(started)
        view.until("() => document.querySelector('#tiles').textContent.includes('3 / 3')")
        values_are_those_of_the_server(view)
        answered_shares_arrive(view)
        explain_box(view)
        transition_impact(view, gateways)
        push_loads(3)
        filter_and_keyboard(view)
        overrides_and_reload(view)
        equal(view.page.evaluate(READABLE), [], "what cannot be read")
        other_windows(started)
        absence(view)
        view.close()
    print("page: seen, clicked and compared")


main()
