"""The page while clients attack the server: it shows each change that is made meanwhile, without a reload. Connections may break if the page
opens others; the breaks are counted.

Arguments after the common ones: the token, and the number of changes.
"""

import sys

from common import Page, browser, order

TOKEN, CHANGES = sys.argv[6], int(sys.argv[7])
HAS_ROW = """name => [...document.querySelectorAll("#services-grid .row:not(.waiting):not([hidden]) .name")]
  .some((cell) => cell.textContent === name)"""


class Attacked(Page):
    """A page that needs a token, and whose connections may break."""

    def __init__(self, started):
        self.breaks = 0
        super().__init__(started)

    def arrived(self):
        self.page.wait_for_selector("#who:not([hidden])")

    def console(self, message):
        if "net::ERR" in message.text:
            self.breaks += 1
        # The first request has no token.
        elif "status of 401" not in message.text:
            super().console(message)


def main():
    with browser() as started:
        view = Attacked(started)
        view.page.keyboard.type(TOKEN)
        view.page.keyboard.press("Enter")
        view.until(HAS_ROW, "first.gslb.example.")
        view.page.wait_for_selector("#link[data-link=live]")
        order("attack")
        for number in range(CHANGES):
            order(f"change {number}")
            name = f"c{number}.gslb.example."
            view.page.fill("#filter", name)
            view.until(HAS_ROW, name)
        view.page.wait_for_selector("#link[data-link=live]")
        print(f"page: showed {CHANGES} changes; {view.breaks} connections broke")
        view.close()


main()
