"""The bill of materials of an image: CycloneDX 1.6 in JSON, valid by the published schema.

It names the image, Tacit with one digest over its own files, every distribution with version, licence, package URL and
the digest of its installer's record, and their dependencies on each other. The contents of the base image are left to
the base's own bill.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import Distribution
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from infra.tools.images.selection import Selection, needs_of
from tacit import __version__
from tacit.errors import Fatal
from tacit.extras import require_extra

if TYPE_CHECKING:
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component

NAMESPACE = UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
"""Namespace of serial numbers, that of URLs (RFC 9562), so that the same contents have the same bill."""
FILE = "sbom.cdx.json"
LONGEST_NAME = 64
FILES_DIGEST = "tacit:files:sha256"
"""Property of a component: the hexadecimal digest of the list of its files with their digests."""


def bill_of(selection: Selection, digest: str) -> str:
    """The document for an image with the contents ``digest`` (hexadecimal SHA-256). Raises ``UsageError`` if the
    library for bills is missing."""
    require_extra("a bill of materials", "containers", "cyclonedx", "packageurl")
    from cyclonedx.output.json import JsonV1Dot6
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text: str = JsonV1Dot6(_bom(selection, digest)).output_as_string(indent=1)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise Fatal(f"the bill of materials of {selection.domain.name} is not valid: {error}")
    return text


def _bom(selection: Selection, digest: str) -> Bom:
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType

    name = f"tacit-{selection.domain.name}"
    image = Component(name=name, version=__version__, type=ComponentType.CONTAINER, bom_ref=name)
    own = _component("tacit", __version__, digest, "Apache-2.0")
    made = Bom(
        serial_number=uuid5(NAMESPACE, f"urn:tacit:image:{name}:{digest}"), metadata=BomMetaData(component=image)
    )
    parts = {one.name: one for one in map(_of_distribution, selection.distributions.values())}
    for part in (own, *parts.values()):
        made.components.add(part)
    made.register_dependency(image, [own])
    made.register_dependency(own, [parts[name] for name in needs_of("tacit", parts)])
    for name, part in parts.items():
        made.register_dependency(part, [parts[needed] for needed in needs_of(name, parts)])
    return made


def _of_distribution(distribution: Distribution) -> Component:
    from packaging.utils import canonicalize_name

    metadata: Any = distribution.metadata
    licence = metadata.get("License-Expression") or _classified_licence(metadata) or _short(metadata.get("License"))
    record = hashlib.sha256((distribution.read_text("RECORD") or "").encode()).hexdigest()
    return _component(canonicalize_name(distribution.name), distribution.version, record, licence)


def _classified_licence(metadata: Any) -> str:
    """The licence that the classifiers name, or the empty string."""
    named = [one.rpartition(" :: ")[2] for one in metadata.get_all("Classifier") or [] if one.startswith("License :: ")]
    return " and ".join(named)


def _short(licence: str | None) -> str:
    """The name of a licence, if the old metadata field holds a name and not the whole text."""
    return licence if licence and len(licence) <= LONGEST_NAME and "\n" not in licence else ""


def _component(name: str, version: str, digest: str, licence: str) -> Component:
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import Property
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=f"pkg:pypi/{name}@{version}",
        purl=PackageURL("pypi", None, name, version),
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [],
        properties=[Property(name=FILES_DIGEST, value=digest)],
    )
