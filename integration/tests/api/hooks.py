"""Gives schemathesis names of existing objects, so that it requests objects and not only missing ones."""

import json
import os
import urllib.error
import urllib.request

import schemathesis
from hypothesis import strategies as st

SERVER = os.environ["SERVER"]
PROJECT = "/v2/projects/a"
APP = f"{PROJECT}/composite-apps/a/a"
WIKI = f"{APP}/traffic-intent-set"
# By what the configuration calls a form of text: texts of this form.
FORMATS = {
    "object-name": ["a", "eu1", "shop"],
    "domain-name": ["a.page.test", "*.page.test"],
    "ip-address": ["192.0.2.9", "2001:db8::9"],
    "network": ["192.0.2.0/24"],
    "ttl-with-unit": ["0s", "30s", "1d"],
    "duration-with-unit": ["250ms", "2s"],
}


def put(path, body):
    request = urllib.request.Request(SERVER + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="PUT")
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError as refused:
        raise AssertionError(f"PUT {path}: {refused.read().decode()}") from refused


def intent(**spec):
    return {"metadata": {"name": "a"}, "spec": spec} if spec else {"metadata": {"name": "a"}}


def objects():
    """One of each kind, all of them called a."""
    put("/v1/clusters/a", {"name": "a", "addresses": ["192.0.2.9"], "services": ["a"]})
    put("/v1/monitors/a", {"name": "a", "type": "always"})
    put("/v1/pools/a", {"name": "a", "policy": "weighted", "monitor": "a", "members": [{"cluster": "a"}]})
    put("/v1/names/a.page.test", {"name": "a.page.test", "pool": "a"})
    put(PROJECT, intent())
    put(APP, intent(compositeAppVersion="a"))
    put("/v2/dtc-controllers/a", intent(host="h", port=1))
    put(f"{PROJECT}/dns-update-records/a", intent(provider="aws"))
    put(f"{APP}/deployment-intent-groups/a", intent())
    put(f"{APP}/deployment-intent-groups/a/traffic-group-intents/a", intent())
    shop = intent(app="a", serviceName="a", externalSupport=True, externalName="b.page.test", gslb={"downResponse": "empty", "ttl": 5})
    for below in [WIKI, f"{APP}/deployment-intent-groups/a/traffic-group-intents/a"]:
        put(f"{below}/inbound-intents/a", shop)
        put(f"{below}/inbound-intents/a/clients/a", intent(cidrs=["10.0.0.0/8"]))
        put(f"{below}/inbound-intents/a/clients/a/access-points/a", intent(url=["/"]))
        put(f"{below}/outbound-intents/a", intent(app="a", serviceName="a"))
        put(f"{below}/outbound-intents/a/server", intent(externalServiceName="db.example"))
        put(f"{below}/compound-intents/a", intent(externalName="c.page.test"))
        put(f"{below}/compound-intents/a/inbound-intents/a", shop)
    put(f"{WIKI}/a", {"name": "a", "set": [{"inbound": "a"}]})


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Three of four names are those of the objects."""
    for name, value in (path_parameters or {}).items():
        if isinstance(value, str) and len(value) % 4 != 0:
            path_parameters[name] = "a.page.test" if "/v1/names/" in context.operation.path else "a"
    return path_parameters


@schemathesis.hook
def before_call(context, case, kwargs):
    """A stream is as long as it likes: none is asked for."""
    if case.query:
        case.query.pop("watch", None)


@schemathesis.hook
def map_body(context, body):
    """What is written is called as the paths have it."""
    if isinstance(body, dict) and isinstance(body.get("metadata"), dict) and context.operation.path.startswith(("/v2/", "/v1/intents/")):
        body["metadata"]["name"] = "a"
    elif isinstance(body, dict) and context.operation.path == "/v1/intents":
        # Half of them could be made.
        if len(json.dumps(body)) % 2:
            body |= {"key": "inbound/a/a/a/default/default/a", "intent": intent(app="a", serviceName="a")}
    elif isinstance(body, dict) and "name" in body and len(str(body["name"])) % 4 != 0:
        body["name"] = "a.page.test" if "/v1/names" in context.operation.path else "a"
    return body


for word, texts in FORMATS.items():
    schemathesis.openapi.format(word, st.sampled_from(texts))
objects()
