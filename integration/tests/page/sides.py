"""Contributions and publishing as an operator looks at them: every value beside that of the API, what comes while the page is open,
evicting with a reason, a plan, and drift that is put right.

Argument after the common ones: where the webhook listens.
"""

import http.client
import json
import re
import sys

from common import FOLDER, Page, READABLE, answer, browser, equal, get, written

WEBHOOK = sys.argv[6]
MEDIA = "application/external.dns.webhook+json;version=1"
CELLS = ["Owner", "Path", "Names", "Endpoints"]


def bring(owner, name, address, set_identifier=""):
    """What external-dns of a cluster sends for a Service with one address."""
    endpoint = {
        "dnsName": name, "targets": [address], "recordType": "A", "setIdentifier": set_identifier, "recordTTL": 60,
        "labels": {"owner": owner}, "providerSpecific": [{"name": "webhook/gslb-health-scheme", "value": "none"}],
    }
    connection = http.client.HTTPConnection(WEBHOOK, timeout=30)
    connection.request("POST", f"/owners/{owner}/records", json.dumps({"create": [endpoint]}), {"Content-Type": MEDIA, "Accept": MEDIA})
    response = connection.getresponse()
    assert response.status == 204, response.read()


def contributions():
    return get("/v1/contributions")[1]["items"]


def contributions_are_those_of_the_server(view, owners):
    view.until("owners => { const rows = document.querySelectorAll('#contributions-table tbody tr'); return rows.length === owners; }", owners)
    items = contributions()
    equal(len(items), owners, "contributions")
    for item, row in zip(items, view.page.locator("#contributions-table tbody tr").all()):
        cells = row.locator("th, td").all_text_contents()
        set_words = f"set {item['set']}" if item["set"] else "no set identifier"
        equal(cells[:4], [item["owner"] + set_words, item["path"], str(item["names"]), str(item["endpoints"])], "a row")
        since = row.locator("td time").first.get_attribute("datetime")
        equal(since, item["since"], "since")
        words = "full weight" if item["leaseWeight"] >= 1 else f"{100 * item['leaseWeight']:.1f} % of its weight"
        assert words in cells[5] and re.search(r"fades in (\d+ s|\d+ min)", cells[5]), cells[5]
        expected = [f"{said['name']} {said['message']}" for said in item["warnings"]]
        equal(row.locator(".warnings li").all_text_contents(), expected, "conditions")


def contributions_come_and_go(view):
    contributions_are_those_of_the_server(view, 2)
    second = next(item for item in contributions() if item["warnings"])
    row = view.page.locator("#contributions-table tbody tr", has_text=second["path"])
    row.locator("summary").click()
    assert row.locator(".warnings").is_visible()
    bring("north", "north.page.test", "192.0.2.33", "n")
    contributions_are_those_of_the_server(view, 3)
    assert row.locator(".warnings").is_visible(), "what was opened stays open while others come"
    equal(answer("north.page.test"), ["192.0.2.33"], "what north brings")
    view.page.locator("#contributions-table tbody tr", has_text="north").get_by_role("button").click()
    equal(view.page.evaluate("document.activeElement.id"), "evict-reason", "where one can begin to type")
    assert "1 endpoint of 1 name that north brings over /owners/north as set n" in view.text("#evict-what"), view.text("#evict-what")
    view.page.screenshot(path=f"{sys.argv[5]}/evict-1440-light.png")
    view.page.get_by_role("button", name="Cancel").click()
    equal(len(contributions()), 3, "what is there after Cancel")
    view.page.locator("#contributions-table tbody tr", has_text="north").get_by_role("button").click()
    view.page.keyboard.press("Enter")
    assert view.page.locator("#evict[open]").count() == 1, "no reason, no eviction"
    view.page.keyboard.type("the cluster is gone")
    view.page.keyboard.press("Enter")
    contributions_are_those_of_the_server(view, 2)
    assert "1 endpoint of north taken out" in view.text("#contributions-said")
    equal(answer("north.page.test"), [], "after the eviction")


def providers():
    return {provider["name"]: provider for provider in get("/v1/publishing")[1]["providers"]}


def publishing_is_that_of_the_server(view):
    view.until("() => document.querySelector('[data-provider=static] .standing')?.textContent === 'ok'")
    for name, said in providers().items():
        article = view.page.locator(f"[data-provider={name}]")
        facts = dict(zip(article.locator("dt").all_text_contents(), article.locator("dd").all_text_contents()))
        equal(article.locator("h3 .standing").text_content(), said["status"], f"standing of {name}")
        equal(facts["Zones"], ", ".join(said["zones"]), "zones")
        equal(facts["Record sets there"], f"{said['owned']} of ours, {said['foreign']} of others", "sets")
        equal(facts["Failures in a row"], str(said["failures"]), "failures")
        equal(facts["Drift found"], str(said["drifted"]), "drift")
        equal(article.locator("[data-part=error]").all_text_contents(), [said["error"]] if said.get("error") else [], "error")
        assert re.match(r"in \d+ (s|min)|due", facts["Next sync"]), facts["Next sync"]
        assert ("behindSince" in said) == facts["Lag"].startswith("behind for"), (facts["Lag"], said)
        rows = article.locator("tbody tr").all()
        shown = [tuple(row.locator("th, td").all_text_contents()) for row in rows]
        wanted = [(r["name"], r["type"], r["status"], r.get("reason", "")) for r in said["records"] if r["status"] != "published"]
        equal(shown, wanted, f"what is not published by {name}")


def a_plan(view):
    view.page.get_by_role("button", name="What would a sync of waits change?").click()
    view.page.wait_for_selector("[data-plan=waits] .plan")
    plan = get("/v1/publishing/waits/plan")[1]
    line = lambda s: f"{s['name']} {s['ttl']} {s['type']} {', '.join(s['records'])}"
    equal(view.texts("[data-plan=waits] [data-change=create] code"), [line(s) for s in plan["create"]], "what would be created")
    assert plan["create"], "there is something to create"
    view.page.get_by_role("button", name="Hide the plan").click()
    equal(view.page.locator("[data-plan]").count(), 0, "plans in view")


def a_record_is_found_by_name(view):
    view.page.fill("#records-filter", "SHOP.pub")
    view.until("() => document.querySelector('[data-provider=static] tbody')?.textContent.includes('shop.pub.example.')")
    view.page.fill("#records-filter", "")
    view.until("() => !document.querySelector('[data-provider=static] tbody')?.textContent.includes('shop.pub.example.')")


def drift_is_shown(view):
    """Somebody takes our line out of the zone file: the next sync puts it back, and the page counts it."""
    path = f"{FOLDER}/pub.zone"
    with open(path) as file:
        lines = file.read().splitlines(True)
    kept = [line for line in lines if not (line.startswith("shop.pub.example.") and "\tA\t" in line)]
    assert len(kept) < len(lines), lines
    written(path, "".join(kept))
    view.until("() => document.querySelector('[data-provider=static] [data-part=drifted]').textContent !== '0'")
    publishing_is_that_of_the_server(view)
    with open(path) as file:
        assert file.read().count("shop.pub.example.") >= 1, "it is put right"


def main():
    bring("east", "both.page.test", "192.0.2.31")
    bring("west", "both.page.test", "192.0.2.32")
    with browser() as started:
        view = Page(started)
        contributions_come_and_go(view)
        publishing_is_that_of_the_server(view)
        a_plan(view)
        a_record_is_found_by_name(view)
        drift_is_shown(view)
        for width, height, scheme in [(360, 800, "light"), (360, 800, "dark"), (1440, 1000, "dark"), (2560, 1300, "light")]:
            other = Page(started, width, height, scheme)
            other.page.wait_for_selector("[data-provider=waits]")
            other.page.wait_for_selector("#contributions-table")
            equal(other.sideways(), 0, f"pixels beyond {width}")
            equal(other.page.evaluate(READABLE), [], f"what cannot be read at {width} in {scheme}")
            other.shot(f"sides-{width}-{scheme}")
            other.close()
        view.close()
    print("page: contributions and publishing are those of the server")


main()
