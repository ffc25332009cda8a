"""The console's own files: as they are in the package, and headers that let nothing else run."""

import base64
import hashlib
import mimetypes
import re
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from aiohttp import web

from .problems import NotFoundError

TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
    ".txt": "text/plain",
    ".map": "application/json",
}
_INLINE = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)
_FALLBACK = b"<!doctype html><title>Sluice</title><p>The pages are not installed; the API is at /api/v1.</p>"


@dataclass
class StaticFiles:
    """Files below *root*, read when they are asked for; index.html stands for every address of a page."""

    root: Path = field(default_factory=lambda: Path(str(files("sluice.console"))) / "static")

    def policy(self) -> str:
        """Return the Content-Security-Policy: own files, and the scripts that index.html holds."""
        hashes = [
            f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'"
            for script in _INLINE.findall(self._index())
        ]
        scripts = " ".join(["'self'", *hashes])
        return (
            f"default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self' data:; "
            "font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; "
            "frame-ancestors 'none'; form-action 'none'; require-trusted-types-for 'script'"
        )

    def _index(self) -> bytes:
        page = self.root / "index.html"
        return page.read_bytes() if page.is_file() else _FALLBACK

    def page(self, request: web.Request) -> web.Response:
        """Return index.html."""
        return _answer(request, self._index(), "text/html")

    def file(self, request: web.Request) -> web.Response:
        """Return a file below `/static/`."""
        name = request.match_info["path"]
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root.resolve()) or not path.is_file():
            raise NotFoundError("file", name[:200])
        kind = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return _answer(request, path.read_bytes(), kind)


def _answer(request: web.Request, data: bytes, kind: str) -> web.Response:
    etag = hashlib.sha256(data).hexdigest()[:24]
    keep = "public, max-age=31536000, immutable" if "v" in request.query else "no-cache"
    headers = {"ETag": f'"{etag}"', "Cache-Control": keep}
    if f'"{etag}"' in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    response = web.Response(body=data, content_type=kind, headers=headers)
    if kind.startswith("text/") or kind.endswith("json"):
        response.charset = "utf-8"
    response.enable_compression()
    return response
