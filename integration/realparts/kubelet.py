#!/usr/bin/env python3
"""kubelet.py SERVER CA TOKEN NODE: plays the kubelet of one node; no container runs.

Binds each Pod without a node to NODE. Reports the Pods of NODE as running, each with its own address of 10.244.0.0/16. Removes Pods that
are being deleted at once. A Pod with the annotation `test/ready: "false"` is not ready; a change of the annotation is followed.
Ends by SIGTERM. After an error it lists all Pods again; standard error gets each error once until another one follows.
"""

import datetime
import http.client
import ipaddress
import json
import ssl
import sys
import time
import urllib.parse

# Longest wait for an answer in seconds. A watch without events is renewed after it, too.
TIMEOUT = 10


class Api:
    """Two connections to the API server: one for the watch, one for requests during it."""

    def __init__(self, server, ca, token):
        self.address = urllib.parse.urlsplit(server).netloc
        self.context = ssl.create_default_context(cafile=ca)
        self.token = token
        self.requests = self.connection()

    def connection(self):
        return http.client.HTTPSConnection(self.address, timeout=TIMEOUT, context=self.context)

    def send(self, connection, method, path, body=None, media_type="application/json"):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": media_type}
        connection.request(method, path, body and json.dumps(body), headers)
        return connection.getresponse()

    def call(self, method, path, body=None, media_type="application/json"):
        """Returns the object of the answer, or None if the object has gone or has changed: the watch then brings its next state."""
        try:
            response = self.send(self.requests, method, path, body, media_type)
            text = response.read()
        except Exception:
            # The next call opens a new connection.
            self.requests.close()
            raise
        if response.status in (404, 409):
            return None
        return checked(method, path, response.status, text)

    def watch(self, path, version):
        """Yields the events after a version until the API server ends the watch."""
        path = f"{path}?watch=1&resourceVersion={version}"
        connection = self.connection()
        try:
            response = self.send(connection, "GET", path)
            if response.status != 200:
                checked("GET", path, response.status, response.read())
            for line in response:
                yield json.loads(line)
        except TimeoutError:
            # No event for so long; the caller lists again.
            return
        finally:
            connection.close()


def checked(method, path, status, text):
    if status >= 300:
        raise OSError(f"{method} {path}: status {status}: {text[:300]!r}")
    return json.loads(text)


class Kubelet:
    def __init__(self, api, node):
        self.api = api
        self.node = node
        # Address of each Pod by its uid. An event may be older than our last patch, so its object alone does not give the address.
        self.addresses = {}
        self.free = ipaddress.ip_network("10.244.0.0/16").hosts()

    def follow(self):
        """Lists all Pods, then follows their changes; returns when the watch ends."""
        pods = self.api.call("GET", "/api/v1/pods")
        for pod in pods["items"]:
            # Addresses from before a restart of this program are taken before the first new one is given.
            if address := pod["status"].get("podIP"):
                self.addresses.setdefault(pod["metadata"]["uid"], address)
        for pod in pods["items"]:
            self.sync(pod)
        for event in self.api.watch("/api/v1/pods", pods["metadata"]["resourceVersion"]):
            if event["type"] == "ERROR":
                # Status 410: the version is no longer in the history.
                return
            if event["type"] == "DELETED":
                self.addresses.pop(event["object"]["metadata"]["uid"], None)
            else:
                self.sync(event["object"])

    def sync(self, pod):
        """Takes the next step for one Pod; its result arrives as another event."""
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if node is None:
            self.bind(path, metadata)
        elif node == self.node and "deletionTimestamp" in metadata:
            self.api.call("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}})
        elif node == self.node:
            self.report(path, pod)

    def bind(self, path, metadata):
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        name = {"name": metadata["name"], "uid": metadata["uid"]}
        self.api.call("POST", f"{path}/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": name, "target": target})

    def report(self, path, pod):
        ready = pod["metadata"].get("annotations", {}).get("test/ready") != "false"
        status = pod["status"]
        reported = {condition["type"]: condition["status"] for condition in status.get("conditions", [])}
        address = self.address(pod)
        if status.get("podIP") == address and reported.get("Ready") == text(ready):
            return
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": running(pod, address, ready)}
        self.api.call("PATCH", f"{path}/status", patch, "application/strategic-merge-patch+json")

    def address(self, pod):
        uid = pod["metadata"]["uid"]
        if uid not in self.addresses:
            taken = set(self.addresses.values())
            self.addresses[uid] = next(a for a in map(str, self.free) if a not in taken)
        return self.addresses[uid]


def running(pod, address, ready):
    """Returns the status of a Pod whose containers run."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    started = pod["status"].get("startTime", now)
    conditions = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    return {
        "phase": "Running",
        "hostIP": "192.0.2.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": started,
        "conditions": [{"type": type, "status": text(value), "lastTransitionTime": now} for type, value in conditions.items()],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": container["image"],
                "ready": ready,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": started}},
            }
            for container in pod["spec"]["containers"]
        ],
    }


def text(value):
    return "True" if value else "False"


def main():
    server, ca, token, node = sys.argv[1:]
    kubelet = Kubelet(Api(server, ca, token), node)
    last = None
    while True:
        try:
            kubelet.follow()
        except (OSError, http.client.HTTPException, ValueError) as error:
            message = f"{type(error).__name__}: {error}"
            if message != last:
                print(f"{datetime.datetime.now():%H:%M:%S} {message}", file=sys.stderr, flush=True)
            last = message
            time.sleep(0.05)


if __name__ == "__main__":
    main()
