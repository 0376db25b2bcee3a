#!/usr/bin/env bash
# api-clients.sh DIR: puts into DIR/bin what makes API clients from an OpenAPI document: openapi-generator-cli (Maven Central; needs Java),
# openapi-python-client and openapi-spec-validator (PyPI), and the interpreter that runs the Python client. Idempotent; about 30 s when cold.
set -euo pipefail
generator=7.25.0
sha256=41ce4f6b07f196676439d710759fa1ced7a08066d06ff1bf314681470289efae
python_client=0.29.0
validator=0.9.0
mkdir -p "${1:?usage: api-clients.sh DIR}/bin"
out=$(cd "$1" && pwd)
jar=$out/openapi-generator-cli-$generator.jar
if [ ! -e "$jar" ]; then
  path=org/openapitools/openapi-generator-cli/$generator/openapi-generator-cli-$generator.jar
  curl -sSf --retry 3 -o "$jar.new" "https://repo1.maven.org/maven2/$path"
  echo "$sha256  $jar.new" | sha256sum --check --quiet >&2
  mv "$jar.new" "$jar"
fi
venv=$out/api-clients-$python_client-$validator
if [ ! -e "$venv/done" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "openapi-python-client==$python_client" "openapi-spec-validator==$validator" >&2
  touch "$venv/done"
fi
program() { # name, command: a link would lose the environment that the interpreter stands in
  printf '#!/bin/sh\nexec %s "$@"\n' "$2" >"$out/bin/$1.new"
  chmod +x "$out/bin/$1.new"
  mv "$out/bin/$1.new" "$out/bin/$1"
}
program openapi-generator-cli "java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -jar \"$jar\""
program openapi-python-client "\"$venv/bin/openapi-python-client\""
program openapi-spec-validator "\"$venv/bin/openapi-spec-validator\""
program api-client-python "\"$venv/bin/python\""
