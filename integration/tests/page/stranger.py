"""A server that requires authentication: the page shows nothing without a token; with it everything, also events; and the
token is the tab's alone."""

import sys

from common import PATIENCE, READABLE, URL, Page, browser, command, equal, order

TOKEN = sys.argv[6]


class Stranger(Page):
    """A page of somebody whom the server does not know yet."""

    def arrived(self):
        self.page.wait_for_selector("#who:not([hidden])")

    def console(self, message):
        # What the browser itself says of a refusal.
        if "status of 401" not in message.text:
            super().console(message)


def only_looks(view):
    """Whose grant has no write sees intents, and a form that says so."""
    key = "inbound/web/shop/v1/default/default/quiet"
    command("PUT", f"/v1/intents/{key}", {"metadata": {"name": "quiet"}, "spec": {"app": "shop", "serviceName": "web"}})
    view.wrong = True
    view.page.locator(f"[data-intent='{key}']").get_by_role("button").click()
    view.until("() => document.querySelector('#editor-said').textContent.startsWith('Read only:')")
    assert "token:ops lacks the verb write in the project web" in view.text("#editor-said"), view.text("#editor-said")
    assert view.page.locator("#editor-save").is_hidden() and view.page.locator("#editor-delete").is_hidden()
    assert view.page.locator("#editor-spec-serviceName").is_disabled()
    equal(view.page.input_value("#editor-spec-serviceName"), "web", "what it says")
    view.page.screenshot(path=f"{sys.argv[5]}/editor-readonly-1440-light.png")
    view.page.click("#editor-close")
    view.page.wait_for_selector("#editor", state="hidden")
    view.wrong = False


def main():
    with browser() as started:
        view = Stranger(started)
        page = view.page
        assert "authentication required" in view.text("#who-why"), view.text("#who-why")
        equal(page.evaluate("document.activeElement.id"), "token", "where one can begin to type")
        equal(page.evaluate(READABLE), [], "what cannot be read")
        equal(page.locator("#services-grid .row[data-index]:not([hidden])").count(), 0, "rows without a token")
        page.keyboard.type("fairway_" + "0" * 64)
        page.keyboard.press("Enter")
        view.until("() => document.querySelector('#who-why').textContent.includes('unknown or has expired')")
        page.screenshot(path=f"{sys.argv[5]}/token-1440-light.png")
        page.keyboard.type(TOKEN)
        page.keyboard.press("Enter")
        view.until("() => document.querySelector('#services-grid .row[data-index]:not(.waiting):not([hidden])')")
        page.wait_for_selector("#link[data-link=live]")
        page.wait_for_selector("#who", state="hidden")
        # Events arrive over the stream, too.
        order("reload")
        page.wait_for_selector("#flips-list [data-to=reload]")
        page.fill("#ask-name", "shop.page.test")
        page.click("#explain-form button")
        page.wait_for_selector(".verdict")
        page.reload()
        view.until("() => document.querySelector('#services-grid .row[data-index]:not(.waiting):not([hidden])')")
        only_looks(view)
        assert TOKEN not in page.content(), "the token is in the page"
        other = view.context.new_page()
        other.goto(URL, timeout=PATIENCE)
        other.wait_for_selector("#who:not([hidden])")
        other.close()
        page.click("#forget")
        page.wait_for_selector("#who:not([hidden])")
        equal(page.evaluate("sessionStorage.length"), 0, "what is kept")
        view.close()
    print("page: shown to whom a token is known")


main()
