"""Options of a `get`, and the form of its answer."""

from dataclasses import dataclass

from sluice.protocol.query import ListRequest, WatchRequest

from .resources import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`namespace` is empty for all of them; `output` is one of `output.FORMATS`, a path, or columns."""

    namespace: str = ""
    all_namespaces: bool = False
    selector: str = ""
    field_selector: str = ""
    output: str = "table"
    header: bool = True
    labels: bool = False
    sort_by: str = ""
    ignore_not_found: bool = False

    @property
    def is_table(self) -> bool:
        return self.output in ("table", "wide") or self.is_custom

    @property
    def is_custom(self) -> bool:
        """Whether the columns are the user's own."""
        return self.output.startswith("custom-columns=")

    @property
    def whole(self) -> bool:
        """Whether specs are shown."""
        return self.is_custom or not (self.is_table or self.output == "name")

    def list_request(self, resource: Resource, name: str = "") -> ListRequest:
        return ListRequest(
            kind=resource.kind,
            name=name,
            namespace=self.namespace if resource.namespaced else "",
            label_selector=self.selector,
            field_selector=resource.narrowed(self.field_selector),
            whole=self.whole,
        )

    def watch_request(self, resource: Resource, since: int, name: str = "", places: int = 0) -> WatchRequest:
        return WatchRequest(
            kind=resource.kind,
            since=since,
            name=name,
            namespace=self.namespace if resource.namespaced else "",
            label_selector=self.selector,
            field_selector=resource.narrowed(self.field_selector),
            whole=self.whole,
            places=places,
        )
