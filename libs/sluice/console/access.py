"""Access to the console: free on loopback only, by a token, or by the headers of a proxy in front."""

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field

from aiohttp import web

from .problems import ForbiddenError, MisdirectedError, UnauthorizedError

COOKIE = "sluice_console"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
MAX_SESSIONS = 1_000


class AccessError(ValueError):
    """Settings that would let in whom they should not."""


@dataclass(frozen=True)
class User:
    name: str = ""
    role: str = "viewer"


@dataclass
class Access:
    """How users are known.

    *auth*: `none`, on loopback only; `token`, of a file, exchanged for a cookie; `proxy`, whose headers are
    believed from *proxies* (addresses or networks) only. *hosts*: names by which the console may be called,
    beside loopback's.
    """

    auth: str = "none"
    host: str = "127.0.0.1"
    token: str = ""
    proxies: tuple[str, ...] = ()
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"
    admins: frozenset[str] = frozenset()
    """Groups whose users are admins."""
    hosts: frozenset[str] = frozenset()
    hides_environment: bool = True
    """Whether values of jobs' environment variables are left out of what is shown."""
    acts: bool = False
    """Whether the console acts for admins; without a proxy, that is whoever is let in."""
    action_token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """Of this process: pages learn it, and send it with each action."""
    _sessions: dict[str, None] = field(default_factory=dict)

    def check_settings(self) -> None:
        """Refuse settings that are less safe than they look.

        Raises:
            AccessError: says which.
        """
        if self.auth not in ("none", "token", "proxy"):
            raise AccessError(f"auth {self.auth!r}: want none, token or proxy")
        if self.auth == "none" and self.host not in LOOPBACK:
            raise AccessError(
                f"host {self.host!r} can be reached by others: without a login the console serves loopback"
                " only (want auth token or proxy)"
            )
        if self.auth == "token" and len(self.token) < 16:
            raise AccessError("the token file holds no token of 16 characters or more")
        if self.auth == "proxy" and not self.proxies:
            raise AccessError("auth proxy needs the addresses of the proxies that are believed")

    def user(self, request: web.Request) -> User:
        """Return who asks.

        Raises:
            UnauthorizedError: nobody knows who asks.
        """
        match self.auth:
            case "token":
                return self._by_token(request)
            case "proxy":
                return self._by_proxy(request)
        return User("", self.role)

    def check_host(self, request: web.Request) -> None:
        """Refuse a request that another site's page may have sent by a name of its own (DNS rebinding).

        Raises:
            MisdirectedError: its Host is not this console's.
        """
        name = host_of(request.headers.get("Host", ""))
        if name in LOOPBACK or name in self.hosts or name == self.host:
            return
        # A page of another site, whose name was made to mean this address.
        raise MisdirectedError(f"Host {name[:100]!r} is not this console's")

    def _by_token(self, request: web.Request) -> User:
        given = request.headers.get("Authorization", "")
        if given.startswith("Bearer ") and self.is_token(given.removeprefix("Bearer ")):
            return User("token", self.role)
        if request.cookies.get(COOKIE, "") in self._sessions:
            return User("token", self.role)
        raise UnauthorizedError("log in with the console's token", "POST /api/v1/login")

    @property
    def role(self) -> str:
        return "admin" if self.acts else "viewer"

    def is_token(self, given: str) -> bool:
        return bool(self.token) and hmac.compare_digest(given.encode(), self.token.encode())

    def _by_proxy(self, request: web.Request) -> User:
        if not self._is_proxy(request.remote or ""):
            raise UnauthorizedError(f"{request.remote} is no proxy that is believed")
        name = request.headers.get(self.user_header, "")
        if not name:
            raise UnauthorizedError(f"the proxy names no user in {self.user_header}")
        groups = {g.strip() for g in request.headers.get(self.groups_header, "").split(",")}
        return User(name, "admin" if groups & self.admins else "viewer")

    def _is_proxy(self, address: str) -> bool:
        try:
            there = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(there in ipaddress.ip_network(proxy, strict=False) for proxy in self.proxies)

    def login(self, token: str) -> str:
        """Return a new session for the token.

        Raises:
            UnauthorizedError: it is another one.
        """
        if self.auth != "token" or not self.is_token(token):
            raise UnauthorizedError("that is not the console's token")
        session = secrets.token_urlsafe(32)
        self._sessions[session] = None
        if len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return session

    def logout(self, request: web.Request) -> None:
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)


def host_of(header: str) -> str:
    """Return the name in a Host header, without the port.

    >>> host_of("127.0.0.1:8080"), host_of("[::1]:80"), host_of("Console.example")
    ('127.0.0.1', '::1', 'console.example')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()


def check_write(request: web.Request) -> None:
    """Refuse what a page of another site could have a browser send.

    Raises:
        ForbiddenError: it comes from elsewhere.
    """
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    origin = request.headers.get("Origin", "")
    if site not in ("same-origin", "none") or (origin and origin.partition("://")[2] != request.host):
        raise ForbiddenError("this must come from the console's own pages")
    if request.content_type != "application/json":
        raise ForbiddenError("want Content-Type: application/json")


def cookie(response: web.StreamResponse, session: str, *, secure: bool) -> None:
    """Give a browser its session: no script reads it, no other site sends it."""
    response.set_cookie(COOKIE, session, httponly=True, samesite="Strict", path="/", secure=secure)
