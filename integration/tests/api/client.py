"""Creates, reads, updates and deletes a pool and an intent by the generated client. The argument is the server's URL."""

import sys

from fairway_client import Client
from fairway_client.api.intents import delete_inbound_intent, get_inbound_intent, replace_inbound_intent
from fairway_client.api.objects import create_pool, delete_pool, get_pool, replace_pool
from fairway_client.models import InboundBody, InboundBodySpec, IntentMetadata, Member, Pool, PoolPolicyType0

client = Client(base_url=sys.argv[1])


def check(what, response, status):
    assert response.status_code == status, f"{what}: {response.status_code} {response.content.decode()}"
    return response


pool = Pool(members=[Member(cluster="eu1")], name="python", policy=PoolPolicyType0.WEIGHTED)
made = check("create", create_pool.sync_detailed(client=client, body=pool, reason="by Python"), 201)
assert made.parsed.name == "python", made.parsed
planned = check("dry run", create_pool.sync_detailed(client=client, body=Pool(pool.members, "other", pool.policy), dry_run=True), 200)
assert planned.parsed.created == ["pools/other"], planned.parsed

found = check("read", get_pool.sync_detailed("python", client=client), 200)
assert [member.cluster for member in found.parsed.members] == ["eu1"], found.parsed
found.parsed.ttl = "7s"
check("another revision", replace_pool.sync_detailed("python", client=client, body=found.parsed, if_match='"0"'), 412)
replaced = check("replace", replace_pool.sync_detailed("python", client=client, body=found.parsed, if_match=found.headers["ETag"]), 200)
assert replaced.parsed.ttl == "7s", replaced.parsed
check("delete", delete_pool.sync_detailed("python", client=client, if_match=replaced.headers["ETag"]), 204)
gone = check("after deletion", get_pool.sync_detailed("python", client=client), 404)
assert "python" in gone.parsed.detail, gone.parsed

key = ("p", "a", "v1", "default", "default", "python")
spec = InboundBodySpec(app="shop", service_name="shop", external_support=True, external_name="python.page.test")
intent = InboundBody(metadata=IntentMetadata(name="python"), spec=spec)
check("create intent", replace_inbound_intent.sync_detailed(*key, client=client, body=intent, if_none_match="*"), 201)
found = check("read intent", get_inbound_intent.sync_detailed(*key, client=client), 200)
assert found.parsed.spec.external_name == "python.page.test", found.parsed
found.parsed.spec.traffic_weight = 20
replaced = replace_inbound_intent.sync_detailed(*key, client=client, body=found.parsed, if_match=found.headers["ETag"])
assert check("replace intent", replaced, 200).parsed.spec.traffic_weight == 20, replaced.parsed
check("delete intent", delete_inbound_intent.sync_detailed(*key, client=client, if_match=replaced.headers["ETag"]), 204)
print("all done")
