"""Kinds that teams bring: a CustomResourceDefinition registers one, its objects are parameters of checks.

The definition is Kubernetes' own (`apiextensions.k8s.io/v1`), so that teams bring what they have. Its objects
are cluster-wide, as an AdmissionCheck names its parameters without a namespace.
"""

from typing import Any

import msgspec

from .kueue import KueueObject
from .meta import Manifest, ObjectMeta, always

API_VERSION = "apiextensions.k8s.io/v1"


class DefinitionNames(Manifest, frozen=True):
    plural: str = ""
    singular: str = ""
    kind: str = ""
    list_kind: str = ""
    short_names: list[str] = []
    categories: list[str] = []


class DefinitionSchema(Manifest, frozen=True):
    open_api_v3_schema: dict[str, Any] | None = msgspec.field(default=None, name="openAPIV3Schema")


class DefinitionVersion(Manifest, frozen=True):
    """What is not used here is kept, so that a definition can be brought as it is."""

    name: str = ""
    served: bool = True
    storage: bool = False
    schema: DefinitionSchema = msgspec.field(default_factory=DefinitionSchema)
    deprecated: bool = False
    deprecation_warning: str | None = None
    subresources: Any = None
    additional_printer_columns: list[Any] = []
    selectable_fields: list[Any] = []


class DefinitionSpec(Manifest, frozen=True):
    group: str = ""
    names: DefinitionNames = DefinitionNames()
    scope: str = ""
    versions: list[DefinitionVersion] = []
    conversion: Any = None
    preserve_unknown_fields: bool = False


class CustomResourceDefinition(KueueObject, frozen=True):
    """A team's own kind of check parameters, with the JSON Schema of its objects."""

    api_version: str = always(API_VERSION)
    kind: str = always("CustomResourceDefinition")
    spec: DefinitionSpec = DefinitionSpec()
    status: Any = None

    def version(self, api_version: str) -> DefinitionVersion | None:
        """Return the served version that an object's apiVersion names."""
        for version in self.spec.versions:
            if version.served and f"{self.spec.group}/{version.name}" == api_version:
                return version
        return None


class CustomObject(Manifest, frozen=True):
    """An object of a registered kind; its definition's schema says what `spec` may be."""

    api_version: str
    kind: str
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: Any = None
    """What is exported with one may be brought back; it is not kept."""


def may_be_custom(api_version: object) -> bool:
    """Could teams have registered a kind of this apiVersion? Its group has a dot, and is not Kubernetes'."""
    group, slash, version = str(api_version).partition("/")
    return bool(slash and version) and "." in group and not group.endswith(_RESERVED)


_RESERVED = ("k8s.io", "sluice.dev", "kubernetes.io")


__all__ = [
    "API_VERSION",
    "CustomObject",
    "CustomResourceDefinition",
    "DefinitionVersion",
    "may_be_custom",
]
