"""Object metadata: names, labels, annotations."""

from sluice.api.errors import FieldError, forbidden, required
from sluice.api.meta import ObjectMeta

from . import names


def check_metadata(metadata: ObjectMeta, *, namespaced: bool, relaxed_name: bool = False) -> list[FieldError]:
    """Check what an API server checks of every object. *relaxed_name* allows capitals (flavors, ours)."""
    found: list[FieldError] = []
    if not metadata.name and metadata.generate_name:
        # Who submits it makes a name of it; only the prefix can be wrong here.
        messages = names.dns_subdomain(f"{metadata.generate_name}x")
        found += names.check_name("metadata.generateName", metadata.generate_name, messages)
    elif not metadata.name:
        found.append(required("metadata.name", "name or generateName is required"))
    else:
        name = metadata.name
        messages = names.flavor_name(name) if relaxed_name else names.dns_subdomain(name)
        if messages:
            found += names.check_name("metadata.name", name, messages)
    if metadata.namespace:
        if not namespaced:
            found.append(forbidden("metadata.namespace", "not allowed on this type"))
        elif messages := names.dns_label(metadata.namespace):
            found += names.check_name("metadata.namespace", metadata.namespace, messages)
    if metadata.labels:
        found += names.check_labels("metadata.labels", metadata.labels)
    if metadata.annotations:
        found += names.check_annotations("metadata.annotations", metadata.annotations)
    return found
