"""A dictionary out of a snapshot: what is in it is decoded when somebody asks for it, and most never is."""

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from typing import Any, cast


class Shelf[K, V](dict[K, V]):
    """A dictionary for all that its users see; what nobody has asked for yet lies in it as its bytes.

    Only reading opens what is there; deleting and replacing do not.
    """

    __slots__ = ("_open",)

    def __init__(self, rows: Mapping[K, bytes], open_: Callable[[K, bytes], V]) -> None:
        super().__init__(cast("Mapping[K, V]", rows))
        self._open = open_

    def __getitem__(self, key: K) -> V:
        found: Any = super().__getitem__(key)
        if type(found) is bytes:
            found = self[key] = self._open(key, found)
        return cast("V", found)

    def get(self, key: K, default: Any = None) -> Any:
        found: Any = super().get(key, default)
        if type(found) is bytes:
            found = self[key] = self._open(key, found)
        return found

    def pop(self, key: K, *default: Any) -> Any:
        found: Any = super().pop(key, *default)
        return self._open(key, found) if type(found) is bytes else found

    def values(self) -> ValuesView[V]:  # type: ignore[override]
        return ValuesView(self)

    def items(self) -> ItemsView[K, V]:  # type: ignore[override]
        return ItemsView(self)

    def __eq__(self, other: object) -> bool:
        return dict(self.items()) == other

    __hash__ = None


def as_stored[K, V](found: dict[K, V]) -> Iterator[tuple[K, V | bytes]]:
    """Yield what a dictionary holds; of a shelf, what nobody has asked for as its bytes."""
    return iter(dict.items(found))
