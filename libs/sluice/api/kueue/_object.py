"""Fields that all of Kueue's kinds have."""

from sluice.api.meta import Manifest, ObjectMeta, always

__all__ = ["API_VERSION", "KueueObject"]

API_VERSION = "kueue.x-k8s.io/v1beta2"


class KueueObject(Manifest, frozen=True):
    """Base of Kueue's kinds and Sluice's own: apiVersion, kind, metadata."""

    api_version: str = always(API_VERSION)
    kind: str = always("")
    metadata: ObjectMeta = ObjectMeta()
