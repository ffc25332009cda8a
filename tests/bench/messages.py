"""Messages as upstream systems and executors publish them."""

import msgspec

from sluice.protocol.tracing import carried

_encode = msgspec.json.Encoder().encode


def job_message(kind: str, job: str, data: object, *, attempt: int = 0) -> bytes:
    """Return the CloudEvent of *kind* about *job* (`namespace/name`)."""
    return _encode(
        {
            "specversion": "1.0",
            "id": f"{kind}-{job}-{attempt}",
            "source": "bench",
            "type": kind,
            "subject": job,
            "time": "2026-01-01T00:00:00Z",
            "data": data,
            **carried(),
        }
    )
