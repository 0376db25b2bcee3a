"""Intents from the page alone: made in the editor with a look at what would come of it, answered, changed, in conflict with somebody
else, drained with a reason, deleted. Every value beside that of the API, every answer by dig."""

import json
import re
import sys

from common import Page, READABLE, answer, browser, equal, explained, get, sent, state

KEY = "inbound/web/shop/v1/default/default/checkout"
NAME = "checkout.page.test"
EU, US = "127.0.1.1", "127.0.2.1"


def field(view, words):
    return view.page.locator("#editor").get_by_label(words, exact=True)


def fault_of(view, words):
    """What stands at a field, as a screen reader tells it."""
    ids = field(view, words).get_attribute("aria-describedby").split()
    return view.text(f"#{[of for of in ids if of.endswith('-fault')][0]}")


def editor_says(view, pattern):
    """Waits for what is said of the draft."""
    view.until("pattern => new RegExp(pattern).test(document.querySelector('#editor-said').textContent)", pattern)


def row(view):
    return view.page.locator(f"[data-intent='{KEY}']")


def values_are_those_of_the_server(view):
    """The row of the intent beside `/v1/intents`."""
    status, listed = get("/v1/intents?contains=checkout")
    equal(status, 200, "the list")
    [item] = listed["items"]
    view.until("([key, text]) => document.querySelector(`[data-intent='${key}'] .weights`)?.textContent.includes(text)", [KEY, f"weight {item['intent']['status']['members'][0]['weight']['effective']},"])
    own = item["intent"]["status"]
    answered = own["answered"]
    facts = dict(zip(row(view).locator("dt").all_text_contents(), row(view).locator("dd").all_text_contents()))
    equal(facts["Answered"], f"{answered['name']}pool {answered['pool']} · TTL {answered['ttl']} s", "where it is answered")
    equal(row(view).locator("dd time").first.get_attribute("datetime"), answered["since"], "since when")
    shown = [chip.locator("b, .muted, .standing, span:not([class])").all_text_contents() for chip in row(view).locator(".weight").all()]
    wanted = [[m["cluster"], f"weight {m['weight']['effective']}, {m['share']:.1f} %", f"by {m['weight']['source']}", m["reason"]] for m in own["members"]]
    equal(shown, wanted, "members")
    return item


def make(view):
    page = view.page
    page.focus("#intents-new")
    page.keyboard.press("Enter")
    page.wait_for_selector("#editor[open]")
    equal(page.evaluate("document.activeElement.id"), "editor-kind", "where one begins")
    editor_says(view, "^Still needed: Project, Composite app, Name\\.$")
    for words in ("web", "shop", "v1", "default", "default", "checkout"):
        page.keyboard.press("Tab")
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type(words)
    equal(page.evaluate("document.activeElement.id"), "editor-at-name", "the order of stops")
    # Nothing but the place is known: the server says what is needed, each at its field.
    view.wrong = True
    editor_says(view, "fault")
    body = {"metadata": {"name": "checkout"}, "spec": {"externalSupport": True}}
    status, problem = sent("PUT", f"/v1/intents/{KEY}?dryRun=true", body)
    equal(status, 422, "a draft without a service")
    by_pointer = {fault["pointer"]: fault["detail"] for fault in problem["errors"]}
    shown = page.evaluate("""() => [...document.querySelectorAll('#editor .fault, #editor-faults li')].map((f) => f.textContent).filter(Boolean)""")
    for pointer, detail in by_pointer.items():
        assert any(detail in words for words in shown), (pointer, detail, shown)
    field(view, "External name").fill(NAME)
    field(view, "Service").fill("web")
    field(view, "Application").fill("shop")
    field(view, "Port").fill("99999")
    view.until("() => document.querySelector('#editor-spec-port')?.getAttribute('aria-invalid') === 'true'")
    body["spec"] |= {"app": "shop", "serviceName": "web", "externalName": NAME, "port": 99999}
    _, problem = sent("PUT", f"/v1/intents/{KEY}?dryRun=true", body)
    [only] = [fault for fault in problem["errors"] if fault["pointer"] == "/spec/port"]
    equal(fault_of(view, "Port"), only["detail"], "the fault at the port")
    assert page.locator("#editor-save").is_disabled(), "an invalid intent cannot be saved"
    page.screenshot(path=f"{sys.argv[5]}/editor-fault-1440-light.png")
    field(view, "Port").fill("")
    editor_says(view, "^It fits")
    view.wrong = False
    for at, (cluster, weight) in enumerate([("eu1", "60"), ("us1", "40")]):
        page.click("#editor-add")
        equal(page.evaluate("document.activeElement.id"), f"editor-member-{at}-cluster", "the new member")
        view.wrong = True
        page.keyboard.type(cluster)
        page.locator(f"#editor-member-{at}-weight").fill(weight)
    editor_says(view, "^It fits")
    view.wrong = False
    body = json.loads(page.input_value("#editor-json"))
    equal(body["spec"]["gslb"]["members"], [{"cluster": "eu1", "weight": 60, "tier": 1}, {"cluster": "us1", "weight": 40, "tier": 1}], "the draft")
    _, report = sent("PUT", f"/v1/intents/{KEY}?dryRun=true", body)
    view.until("lines => JSON.stringify([...document.querySelectorAll('ul[data-part=effect] li')].map((li) => li.textContent)) === lines", json.dumps(report["effect"], separators=(",", ":")))
    equal(view.texts("#editor-outcome .plan-objects li"), [f"{KEY} is made"], "the plan")
    view.until("() => document.querySelector('.difference').textContent.includes('+is /spec/gslb/members/1/weight 40')")
    equal(page.evaluate(READABLE), [], "what cannot be read in the editor")
    page.screenshot(path=f"{sys.argv[5]}/editor-1440-light.png")
    equal(answer(NAME), [], "answers before it is saved")
    page.fill("#editor-reason", "the shop opens")
    page.keyboard.press("Enter")
    page.wait_for_selector("#editor", state="hidden")
    row(view).wait_for()
    equal(view.text("#intents-said"), f"Saved {KEY}.", "what is said of it")
    assert answer(NAME) in ([EU], [US]), answer(NAME)
    item = values_are_those_of_the_server(view)
    equal(item["metadata"]["reason"], "the shop opens", "the reason in the store")
    _, explanation = explained(name=NAME, type="A")
    members = {m["cluster"]: m["weight"] for m in explanation["steps"][0]["pool"]["members"]}
    equal(members, {"eu1": 60, "us1": 40}, "weights by /v1/explain")


def change_weight(view):
    row(view).get_by_role("button").click()
    view.page.wait_for_selector("#editor[open]")
    view.page.locator("#editor-member-0-weight").fill("10")
    editor_says(view, "^It fits: 1 value")
    equal(view.texts(".difference .change code"), ["/spec/gslb/members/0/weight 60", "/spec/gslb/members/0/weight 10"], "the difference")
    view.page.click("#editor-save")
    view.page.wait_for_selector("#editor", state="hidden")
    item = values_are_those_of_the_server(view)
    equal(item["intent"]["status"]["members"][0]["share"], 20.0, "the share of 10 of 50")


def two_at_once(view):
    """Another client changes it while it is open: the page shows that, and both changes can be kept."""
    page = view.page
    row(view).get_by_role("button").click()
    page.wait_for_selector("#editor[open]")
    page.locator("#editor-member-1-weight").fill("90")
    editor_says(view, "^It fits: 1 value")
    _, body = get(f"/v1/intents/{KEY}")
    body["spec"]["gslb"]["ttl"] = 30
    status, said = sent("PUT", f"/v1/intents/{KEY}?reason=longer", body)
    equal(status, 200, said)
    view.wrong = True
    view.page.wait_for_selector("#editor-conflict .difference")
    assert "longer" in view.text("#editor-conflict"), view.text("#editor-conflict")
    equal([code for code in view.texts("#editor-conflict .change code") if "ttl" in code][-1].split()[0], "/spec/gslb/ttl", "what the other one changed")
    page.screenshot(path=f"{sys.argv[5]}/conflict-1440-light.png")
    page.get_by_role("button", name="Put my changes on top of theirs").click()
    editor_says(view, "^It fits: 1 value")
    view.wrong = False
    page.click("#editor-save")
    page.wait_for_selector("#editor", state="hidden")
    item = values_are_those_of_the_server(view)
    weights = [m["weight"]["effective"] for m in item["intent"]["status"]["members"]]
    equal((weights, item["intent"]["status"]["answered"]["ttl"]), ([10, 90], 30), "both changes")
    # One that was saved with an old tag is refused by the server, whatever the page shows.
    status, _ = sent("PUT", f"/v1/intents/{KEY}", body, **{"If-Match": '"1"'})
    equal(status, 412, "a write over another one")


def deleted_meanwhile(view):
    """Another client deletes it while it is open: the page shows that, and it can be created again."""
    page = view.page
    row(view).get_by_role("button").click()
    page.wait_for_selector("#editor[open]")
    editor_says(view, "^Nothing is changed yet")
    view.wrong = True
    equal(sent("DELETE", f"/v1/intents/{KEY}", {})[0], 204, "somebody else's deletion")
    view.until("() => document.querySelector('#editor-conflict').textContent.includes('It was deleted meanwhile')")
    page.get_by_role("button", name="Make it anew from what is here").click()
    editor_says(view, "^It fits")
    view.wrong = False
    page.click("#editor-save")
    page.wait_for_selector("#editor", state="hidden")
    row(view).wait_for()
    item = values_are_those_of_the_server(view)
    equal(item["metadata"]["generation"], 1, "how often it has changed since it is there again")


def late_word_of_a_deletion(view):
    """The effect of deleting one intent arrives late, when another one is open: that one is not deleted."""
    page = view.page
    other = KEY.replace("checkout", "second")
    body = {"metadata": {"name": "second"}, "spec": {"app": "a", "serviceName": "web"}}
    equal(sent("PUT", f"/v1/intents/{other}", body)[0], 201, "a second intent")
    page.locator(f"[data-intent='{other}']").wait_for()
    held = []
    page.route(lambda url: "dryRun" in url, lambda route: held.append(route) if route.request.method == "DELETE" else route.continue_())
    row(view).get_by_role("button").click()
    page.wait_for_selector("#editor[open]")
    editor_says(view, "^Nothing is changed yet")
    with page.expect_request(lambda request: request.method == "DELETE"):
        page.click("#editor-delete")
    page.keyboard.press("Escape")
    page.wait_for_selector("#editor", state="hidden")
    page.locator(f"[data-intent='{other}']").get_by_role("button").click()
    page.wait_for_selector("#editor[open]")
    editor_says(view, "^Nothing is changed yet")
    with page.expect_response(lambda response: response.request.method == "DELETE") as late:
        held[0].continue_()
    late.value.finished()
    # Whatever the page makes of it is done when a later answer is there.
    page.evaluate("() => fetch('/healthz').then((answer) => answer.text())")
    assert page.locator("#editor-sure").is_hidden(), "the second intent is one press from being deleted"
    equal(view.text("#editor-said"), "Nothing is changed yet.", "what is said of the second one")
    page.unroute_all()
    page.keyboard.press("Escape")
    equal(sent("DELETE", f"/v1/intents/{other}", {})[0], 204, "the second intent")
    page.locator(f"[data-intent='{other}']").wait_for(state="detached")


def other_kinds(view):
    """Another kind has other fields: what it has not is not sent for it."""
    page = view.page
    page.click("#intents-new")
    page.wait_for_selector("#editor[open]")
    view.wrong = True
    for words, value in [("Project", "web"), ("Composite app", "shop"), ("Name", "kinds")]:
        field(view, words).fill(value)
    field(view, "External name").fill("kinds.page.test")
    field(view, "TTL, seconds").fill("20")
    page.select_option("#editor-kind", "compound")
    editor_says(view, "^It would be kept, and not heeded")
    spec = {"externalName": "kinds.page.test", "ttl": 20}
    equal(json.loads(page.input_value("#editor-json")), {"metadata": {"name": "kinds"}, "spec": spec}, "a compound")
    assert page.locator("#editor-steering").is_hidden(), "its children have the members"
    page.select_option("#editor-kind", "outbound")
    field(view, "Service").fill("db")
    editor_says(view, "^It fits")
    equal(json.loads(page.input_value("#editor-json")), {"metadata": {"name": "kinds"}, "spec": {"serviceName": "db"}}, "what is used")
    assert page.locator("#editor-steering").is_hidden(), "what is used has no members"
    page.select_option("#editor-kind", "inbound")
    assert field(view, "Answer this name to clients").is_checked(), "what is exposed is answered unless one says no"
    editor_says(view, "^\\d+ fault|^It fits|^It would be kept")
    view.wrong = False
    page.click("#editor-close")
    editor_says(view, "^Not saved")
    page.click("#editor-close")
    page.wait_for_selector("#editor", state="hidden")


def drain(view):
    """A cluster is drained with a reason, is seen to leave, and comes back."""
    page = view.page
    page.click(".command summary")
    page.fill("#override-scope", "us1")
    page.fill("#override-reason", "new disks <b>soon</b>")
    page.keyboard.press("Enter")
    page.wait_for_selector("#overrides-body tbody tr")
    shown = page.locator("#overrides-body tbody tr").text_content()
    [said] = state()["overrides"]
    assert said["reason"] in shown and said["id"] in shown and re.search(r"ends in (59 min|1 h)", shown), shown
    view.until("key => document.querySelector(`[data-intent='${key}'] [data-cluster=us1]`)?.dataset.standing === 'down'", KEY)
    for _ in range(5):
        equal(answer(NAME), [EU], "who answers while us1 is drained")
    view.until("() => document.querySelector('#services-grid').textContent.includes('checkout.page.test.')")
    page.evaluate("scrollTo(0, 0)")
    view.shot("drained-1440-light")
    page.get_by_role("button", name="Take away the override of us1").click()
    page.wait_for_selector("#overrides-body tbody tr", state="detached")
    view.until("key => document.querySelector(`[data-intent='${key}'] [data-cluster=us1]`)?.dataset.standing === 'up'", KEY)


def other_windows(started):
    for width, height, scheme in [(360, 800, "light"), (360, 800, "dark"), (1440, 1000, "dark"), (2560, 1300, "light"), (2560, 1300, "dark")]:
        view = Page(started, width, height, scheme)
        row(view).wait_for()
        equal(view.sideways(), 0, f"pixels beyond {width}")
        equal(view.page.evaluate(READABLE), [], f"what cannot be read at {width} in {scheme}")
        view.shot(f"intents-{width}-{scheme}")
        row(view).get_by_role("button").click()
        view.page.wait_for_selector("#editor[open]")
        editor_says(view, "^Nothing is changed yet")
        view.page.locator("#editor-member-0-weight").fill("11")
        editor_says(view, "^It fits")
        equal(view.sideways(), 0, f"pixels beyond {width} with the editor")
        wide = "() => { const d = document.querySelector('#editor'); return d.scrollWidth - d.clientWidth; }"
        equal(view.page.evaluate(wide), 0, f"pixels beyond the editor at {width}")
        equal(view.page.evaluate(READABLE), [], f"what cannot be read in the editor at {width} in {scheme}")
        view.page.screenshot(path=f"{sys.argv[5]}/editor-{width}-{scheme}.png")
        # Leaving with changes is asked for twice.
        view.page.keyboard.press("Escape")
        editor_says(view, "^Not saved")
        view.page.click("#editor-close")
        view.page.wait_for_selector("#editor", state="hidden")
        view.close()


def delete(view):
    page = view.page
    page.reload()
    row(view).get_by_role("button").click()
    page.wait_for_selector("#editor[open]")
    page.click("#editor-delete")
    editor_says(view, "^Press Delete for good")
    equal(view.texts("#editor-outcome .plan-objects li"), [f"{KEY} is deleted"], "the plan")
    equal(page.evaluate("document.activeElement.id"), "editor-sure", "where the next press goes")
    assert answer(NAME), "nothing is deleted yet"
    # The list tells of it before the answer is there: that is nobody else's deletion, and nothing is tried (412 on the console).
    held = []
    page.route(lambda url: "/v1/intents/" in url, lambda route: held.append((route, route.fetch())) if route.request.method == "DELETE" else route.continue_())
    page.keyboard.press("Enter")
    row(view).wait_for(state="detached")
    page.evaluate("() => fetch('/healthz').then((answer) => answer.text())")
    equal(view.text("#editor-conflict"), "", "what somebody else did")
    # The list may know of it before the request that caused it has its answer.
    for _ in range(1000):
        if held:
            break
        page.wait_for_timeout(10)
    held[0][0].fulfill(response=held[0][1])
    page.wait_for_selector("#editor", state="hidden")
    page.unroute_all()
    equal(get(f"/v1/intents/{KEY}")[0], 404, "the intent")
    equal(answer(NAME), [], "answers of what was deleted")


def turn_pages(view):
    """120 intents, of which a page of 50 is drawn, and any is found by the server."""
    at = lambda n: f"inbound/many/shop/v1/default/default/n{n:03}"
    names = [f"n{n:03}" for n in range(120)]
    body = lambda n: {"metadata": {"name": f"n{n:03}"}, "spec": {"app": "a", "serviceName": "web"}}
    for n in range(120):
        equal(sent("PUT", f"/v1/intents/{at(n)}", body(n))[0], 201, "an intent")
    shown = "() => [...document.querySelectorAll('#intents-body [data-intent]')].map((row) => row.dataset.intent.split('/').at(-1))"
    # What changes while one looks on is seen without turning a page.
    view.until(f"names => String(({shown})()) === String(names)", names[:50])
    equal(view.text("#intents-count"), "1 to 50", "the first page")
    assert view.page.get_by_role("button", name="Previous").is_disabled(), "nothing is before the first page"
    view.page.get_by_role("button", name="Next").click()
    view.until(f"names => String(({shown})()) === String(names)", names[50:100])
    view.page.get_by_role("button", name="Next").click()
    view.until(f"names => String(({shown})()) === String(names)", names[100:])
    equal(view.text("#intents-count"), "101 to 120, the last", "the last page")
    assert view.page.get_by_role("button", name="Next").is_disabled(), "nothing is after the last page"
    for n in range(100, 120):
        equal(sent("DELETE", f"/v1/intents/{at(n)}", {})[0], 204, "an intent")
    view.until(f"names => String(({shown})()) === String(names)", names[50:100])
    view.page.fill("#intents-filter", "n007")
    view.until(f"names => String(({shown})()) === String(names)", ["n007"])
    equal(view.text("#intents-count"), "1 intent", "what is found")
    view.page.fill("#intents-filter", "")
    view.until(f"names => String(({shown})()) === String(names)", names[:50])
    for n in range(100):
        equal(sent("DELETE", f"/v1/intents/{at(n)}", {})[0], 204, "an intent")
    view.until("() => document.querySelector('#intents-count').textContent === '0 intents'")


def main():
    with browser() as started:
        view = Page(started)
        turn_pages(view)
        make(view)
        change_weight(view)
        two_at_once(view)
        deleted_meanwhile(view)
        late_word_of_a_deletion(view)
        other_kinds(view)
        drain(view)
        other_windows(started)
        delete(view)
        view.close()
    print("page: an intent was made, changed, drained and deleted")


main()
