"""A request as handlers see it: who asks, and its parameters, checked."""

from dataclasses import dataclass, replace

import msgspec
from aiohttp import web

from .access import User
from .problems import ProblemError

PAGE, MOST = 100, 1_000


@dataclass(frozen=True)
class Asked:
    """One request. *moment* is asked about where its body, not its address, says so."""

    request: web.Request
    user: User
    data: bytes = b""
    moment: str | None = None

    def at(self, moment: str) -> "Asked":
        """Return the same request about another moment, if there is one."""
        return replace(self, moment=moment) if moment else self

    def text(self, name: str) -> str:
        if name == "at" and self.moment is not None:
            return self.moment
        return str(self.request.query.get(name, ""))

    def many(self, name: str) -> tuple[str, ...]:
        return tuple(str(one) for one in self.request.query.getall(name, []))

    def words(self, name: str) -> frozenset[str]:
        """Return the words of a list with commas."""
        return frozenset(word for word in self.text(name).split(",") if word)

    def choice(self, name: str, known: tuple[str, ...]) -> str:
        found = self.text(name)
        if found not in known:
            raise ProblemError(f"{name}={found}: want one of {', '.join(filter(None, known))}")
        return found

    def number(self, name: str, default: int) -> int:
        found = self.text(name)
        if not found:
            return default
        if not found.isdigit() or len(found) > 18:
            raise ProblemError(f"{name}={found[:40]}: want a number")
        return int(found)

    def limit(self) -> int:
        return max(1, min(self.number("limit", PAGE), MOST))

    def start(self) -> int:
        return self.number("continue", 0)

    def part(self, name: str) -> str:
        """Return a part of the path."""
        return str(self.request.match_info[name])

    def seq(self) -> int:
        return int(self.part("seq"))

    def key(self) -> str:
        return f"{self.part('namespace')}/{self.part('name')}"

    def body[T](self, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(self.data, type=kind)
        except msgspec.DecodeError as error:
            raise ProblemError(str(error)) from None
