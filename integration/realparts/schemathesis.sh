#!/usr/bin/env bash
# schemathesis.sh DIR: puts DIR/bin/schemathesis there, PyPI's tester of APIs by their OpenAPI document. Idempotent; about 40 s when cold.
set -euo pipefail
version=4.32.5
mkdir -p "$1/bin"
out=$(cd "$1" && pwd)
venv=$out/schemathesis-$version
if [ ! -e "$venv/done" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version" >&2
  touch "$venv/done"
fi
# A link would lose the environment that the interpreter stands in.
printf '#!/bin/sh\nexec "%s/bin/schemathesis" "$@"\n' "$venv" >"$out/bin/schemathesis.new"
chmod +x "$out/bin/schemathesis.new"
mv "$out/bin/schemathesis.new" "$out/bin/schemathesis"
