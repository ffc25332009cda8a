"""A dictionary that keeps records in another form, and makes them when somebody asks: most never are."""

from collections.abc import Callable, ItemsView, Iterator, ValuesView
from typing import TYPE_CHECKING, Any, cast

Stored = bytes | int
"""A record that is not read yet: its row out of a snapshot, or its number among what is packed."""


class LazyDict[K, V](dict[K, V]):
    """A dictionary for all that its users see; what nobody has asked for yet lies in it as it is stored.

    Only reading opens what is there; deleting and replacing do not.
    """

    __slots__ = ("_open",)

    def __init__(self, open_: Callable[[K, Any], V]) -> None:
        """*open_*: returns the record, and puts it here if it is to stay."""
        super().__init__()
        self._open = open_

    def store(self, key: K, stored: Stored) -> None:
        """Take in a record as it is stored."""
        self[key] = cast("V", stored)

    def stored(self, key: K) -> V | Stored | None:
        """Return what is there, in the form in which it is there."""
        return super().get(key)

    def __getitem__(self, key: K) -> V:
        found: Any = super().__getitem__(key)
        kind = type(found)
        return cast("V", self._open(key, found) if kind is int or kind is bytes else found)

    if not TYPE_CHECKING:  # its types are those of a dictionary's

        def get(self, key, default=None):
            found = super().get(key, default)
            kind = type(found)
            return self._open(key, found) if kind is int or kind is bytes else found

    def pop(self, key: K, *default: Any) -> Any:
        if key in self:
            found = self[key]
            del self[key]
            return found
        return super().pop(key, *default)

    def is_packed(self, key: K) -> bool:
        """Does it lie packed, as what is over does? Only what is there."""
        return type(super().get(key)) is int

    def unpacked(self) -> Iterator[V]:
        """Yield all records but those that lie packed."""
        for key in [key for key, found in super().items() if type(found) is not int]:
            yield self[key]

    def values(self) -> ValuesView[V]:  # type: ignore[override]
        return ValuesView(self)

    def items(self) -> ItemsView[K, V]:  # type: ignore[override]
        return ItemsView(self)

    def __eq__(self, other: object) -> bool:
        return dict(self.items()) == other

    __hash__ = None


def as_stored[K, V](found: dict[K, V]) -> Iterator[tuple[K, V | Stored]]:
    """Yield what a dictionary holds; of a `LazyDict`, what nobody has asked for as it is stored."""
    return iter(dict.items(found))
