#!/usr/bin/env bash
# browser.sh DIR: puts DIR/bin/playwright-python there, a Python that drives Debian's chromium by PyPI's playwright, whose wheel brings
# its own driver. Idempotent; about 10 s when cold. Chromium itself is a Debian package (integration/run installs it).
set -euo pipefail
version=1.65.2
mkdir -p "$1/bin"
out=$(cd "$1" && pwd)
venv=$out/playwright-$version
if [ ! -e "$venv/done" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "playwright==$version" >&2
  touch "$venv/done"
fi
# A link would lose the environment that the interpreter stands in.
printf '#!/bin/sh\nexec "%s/bin/python" "$@"\n' "$venv" >"$out/bin/playwright-python.new"
chmod +x "$out/bin/playwright-python.new"
mv "$out/bin/playwright-python.new" "$out/bin/playwright-python"
