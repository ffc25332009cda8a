"""A small capacity provider: what the provisioning check talks to, for trying out and for tests.

    python examples/checks/provisioning/provider.py --port 8090

It provisions every request after `--delay` seconds, and names a node pool in the request's details. What it
should do wrong can be told to it, for the next requests in order:

    curl -X POST localhost:8090/faults -d '["fail", "ok", "error", "hang", "rubbish"]'

fail: the request Fails; error: status 500; hang: no answer; rubbish: no JSON; ok: nothing. What becomes of a
request that is there, Failed, BookingExpired or CapacityRevoked, can be told, too:

    curl -X POST localhost:8090/v1/provisioningrequests/<namespace>/<name>/Failed

It forgets all when it ends.
"""

import argparse
import asyncio
import json
import time
from typing import Any

from aiohttp import web

PATH = "/v1/provisioningrequests"


class Provider:
    """The requests by (namespace, name), and what to do wrong."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.requests: dict[tuple[str, str], dict[str, Any]] = {}
        self.faults: list[str] = []
        self.history: list[str] = []

    def app(self) -> web.Application:
        app = web.Application()
        one = PATH + "/{namespace}/{name}"
        app.add_routes(
            [
                web.post(PATH, self.create),
                web.get(PATH, self.list),
                web.get(one, self.get),
                web.delete(one, self.delete),
                web.post(one + "/{condition}", self.condition),
                web.post("/faults", self.break_down),
                web.get("/history", self.tell),
            ]
        )
        return app

    async def create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        fault = self.faults.pop(0) if self.faults else "ok"
        self.history.append(f"POST {asked['namespace']}/{asked['name']} {fault}")
        if fault == "error":
            return web.Response(status=500, text="out of order")
        if fault == "hang":
            await asyncio.sleep(3600)
        if fault == "rubbish":
            return web.Response(text="<html>not what you want</html>")
        key = (asked["namespace"], asked["name"])
        if key in self.requests:
            return web.Response(status=409, text="exists")
        self.requests[key] = {"asked": asked, "at": time.monotonic(), "fault": fault, "conditions": {}}
        return web.json_response(self.status(key), status=201)

    def status(self, key: tuple[str, str]) -> dict[str, Any]:
        """Return a request as it is by now."""
        found = self.requests[key]
        done = time.monotonic() - found["at"] >= self.delay_s
        conditions = {"Accepted": "", **found["conditions"]}
        if done and found["fault"] == "fail":
            conditions["Failed"] = "no machines left"
        elif done:
            conditions["Provisioned"] = ""
        return {
            "name": key[1],
            "namespace": key[0],
            "workloadUid": found["asked"]["workloadUid"],
            "conditions": [{"type": k, "status": "True", "message": text} for k, text in conditions.items()],
            "provisioningClassDetails": {"pool": f"pool-{found['asked']['provisioningClassName']}"},
        }

    async def get(self, request: web.Request) -> web.Response:
        key = (request.match_info["namespace"], request.match_info["name"])
        if key not in self.requests:
            return web.Response(status=404, text="no such request")
        return web.json_response(self.status(key))

    async def list(self, request: web.Request) -> web.Response:
        owner = request.query.get("owner")
        keys = [key for key, one in self.requests.items() if owner in (None, one["asked"]["owner"])]
        return web.json_response({"items": [self.status(key) for key in keys]})

    async def delete(self, request: web.Request) -> web.Response:
        key = (request.match_info["namespace"], request.match_info["name"])
        self.history.append(f"DELETE {key[0]}/{key[1]}")
        self.requests.pop(key, None)
        return web.Response(status=204)

    async def condition(self, request: web.Request) -> web.Response:
        key = (request.match_info["namespace"], request.match_info["name"])
        if key not in self.requests:
            return web.Response(status=404, text="no such request")
        self.requests[key]["conditions"][request.match_info["condition"]] = "told so"
        return web.json_response(self.status(key))

    async def break_down(self, request: web.Request) -> web.Response:
        self.faults = list(json.loads(await request.text()))
        return web.Response(status=204)

    async def tell(self, _: web.Request) -> web.Response:
        return web.json_response(self.history)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--delay", type=float, default=2.0, help="seconds until a request is provisioned")
    options = parser.parse_args()
    web.run_app(Provider(options.delay).app(), host="127.0.0.1", port=options.port)


if __name__ == "__main__":
    main()
