"""A small webhook: what the webhook check asks, for trying out and for tests.

    python examples/checks/webhook/approver.py --port 8091 [--secret-file FILE]

It answers Pending until somebody says otherwise, for all workloads or for one job:

    curl -X POST localhost:8091/say -d '{"state": "Ready", "message": "Ann has approved it"}'
    curl -X POST localhost:8091/say/train -d '{"state": "Rejected", "message": "not this one"}'

`{"hang": true}` lets it hang, `{"status": 500}` lets it fail. With a secret it refuses what is not signed
with it, or is older than five minutes. `curl localhost:8091/asked` shows what it was asked.
"""

import argparse
import asyncio
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

from aiohttp import web


class Approver:
    """What to answer, by job; '' for all others."""

    def __init__(self, secret: bytes = b"") -> None:
        self.secret = secret
        self.answers: dict[str, dict[str, Any]] = {
            "": {"state": "Pending", "message": "Nobody has approved it"}
        }
        self.asked: list[str] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.add_routes(
            [
                web.post("/review", self.review),
                web.post("/say", self.say),
                web.post("/say/{job}", self.say),
                web.get("/asked", self.tell),
            ]
        )
        return app

    def signed(self, request: web.Request, body: bytes) -> bool:
        """Tell whether a request comes from who has the secret, and is new."""
        parts = dict(
            part.partition("=")[::2] for part in request.headers.get("Sluice-Signature", "").split(",")
        )
        when = parts.get("t", "")
        if not when.isdigit() or abs(time.time() - int(when)) > 300:
            return False
        wanted = hmac.new(self.secret, when.encode() + b"." + body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(wanted, parts.get("v1", ""))

    async def review(self, request: web.Request) -> web.Response:
        body = await request.read()
        if self.secret and not self.signed(request, body):
            return web.Response(status=401, text="not signed by who may ask")
        review = json.loads(body)
        workload = review["request"]["workload"]
        self.asked.append(f"{review['action']} {workload['namespace']}/{workload['job']}")
        answer = self.answers.get(workload["job"], self.answers[""])
        if answer.get("hang"):
            await asyncio.sleep(3600)
        return web.json_response(answer, status=answer.get("status", 200))

    async def say(self, request: web.Request) -> web.Response:
        self.answers[request.match_info.get("job", "")] = json.loads(await request.text())
        return web.Response(status=204)

    async def tell(self, _: web.Request) -> web.Response:
        return web.json_response(self.asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8091)
    parser.add_argument("--secret-file", type=Path, default=None)
    options = parser.parse_args()
    secret = options.secret_file.read_bytes().strip() if options.secret_file else b""
    web.run_app(Approver(secret).app(), host="127.0.0.1", port=options.port)


if __name__ == "__main__":
    main()
