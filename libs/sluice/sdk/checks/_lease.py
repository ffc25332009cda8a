"""Lease of the active one of a controller's replicas: the one that holds its heartbeat.

The heartbeat is a key with a time to live. A holder believes itself active no longer than that time after it
began its last successful renewal, and a stand-by writes the key not before that time after the last renewal
that it has seen: also a server that restarts, and forgets the key, makes no two of them.
"""

import os
import socket
from functools import partial

import msgspec

from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.kv import Bucket
from sluice.log.runtime.lease import Lease, LeasePolicy
from sluice.protocol.checks import CONTROLLER, ControllerHeartbeat
from sluice.protocol.dispatch import key_token
from sluice.protocol.heartbeats import heartbeat_of


def heartbeat_lease(
    target: JetStreamLog, controller: str, instance: str, ttl_s: int, version: str = ""
) -> Lease:
    """Return the heartbeat of one controller. *ttl_s*: whole seconds."""
    host, pid = socket.gethostname(), os.getpid()

    def encode(holder: str) -> bytes:
        beat = ControllerHeartbeat(name=controller, instance=holder, host=host, pid=pid, version=version)
        return msgspec.json.encode(beat)

    key = f"{CONTROLLER}.{key_token(controller)}"
    policy = LeasePolicy(encode, partial(_holder, controller), stored_s=ttl_s, released_s=1, fenced=False)
    return Lease(Bucket(target, "heartbeats", memory=True), key, instance, ttl_s, policy)


def _holder(controller: str, value: bytes) -> str:
    beat = heartbeat_of(controller, value)
    return "?" if beat is None else beat.instance
