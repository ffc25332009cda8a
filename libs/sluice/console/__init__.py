"""The console: the cell and its past over HTTP, for browsers and for other programs."""

__all__ = ["access", "actions", "cell", "live", "openapi", "redaction", "server"]
