"""Quantities of users are bounded in length wherever they stand; older logs can still be read."""

import pytest

from sluice.api.quantity import MAX_LENGTH, parse, resource_value
from sluice.api.validation import validate
from sluice.api.yaml import manifests

HEAD = "metadata: {name: x, namespace: default, labels: {kueue.x-k8s.io/queue-name: q}}"
JOB = """{apiVersion: batch/v1, kind: Job, %s, spec: {template: {spec: {restartPolicy: Never, containers:
  [{name: c, image: i, resources: {%s: {cpu: "%s"}}}]}}}}"""
QUEUE = """{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: x}, spec: {
  namespaceSelector: {}, resourceGroups: [{coveredResources: [cpu],
  flavors: [{name: f, resources: [{name: cpu, nominalQuota: "%s"}]}]}]}}"""


def _told(text: str) -> list[str]:
    (manifest,) = manifests(text)
    return [f"{error.field}: {error}" for error in validate(manifest)]


@pytest.mark.parametrize("length", [MAX_LENGTH + 1, 300_000])
@pytest.mark.parametrize("digit", ["1", "0"])
@pytest.mark.parametrize("where", ["requests", "limits", "nominalQuota"])
def test_an_endless_quantity_is_refused(where, length, digit):
    """In few words: its author knows the digits."""
    long = digit * length
    text = QUEUE % long if where == "nominalQuota" else JOB % (HEAD, where, long)

    found = _told(text)

    assert any(f"no more than {MAX_LENGTH} characters" in line for line in found), found
    assert all(len(line) < 1000 for line in found)


def test_a_long_one_is_taken():
    fits = "0" * (MAX_LENGTH - 1) + "1"
    assert _told(JOB % (HEAD, "requests", fits)) == _told(JOB % (HEAD, "requests", "1"))
    assert _told(QUEUE % fits) == _told(QUEUE % "1")


def test_what_older_logs_hold_is_read():
    """A reader that refused it could not go on."""
    assert parse("1" * 1000) > 0
    assert resource_value("cpu", "1" * 300_000) == 2**63 - 1
