"""A local stack on disk: one folder per trust domain, each with its own keys, credentials and configuration.

``infra.stacks.new_layout`` creates it once; afterwards it is loaded from here. A service only ever sees its own folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.stacks.options import StackOptions, operator_credential
from infra.stacks.tls import CLIENT_FILES, OPERATOR
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.errors import UsageError
from tacit.service.http.token_files import first_token

if TYPE_CHECKING:
    from infra.stacks.parties import StackParties
    from tacit.models.parties import Parties
    from tacit.models.secure_aggregation.form import SecureAggregationParties
    from tacit.signing import SigningKey

INDEX = "stack.json"
DRAFT = f".{INDEX}.new"
"""What becomes the index. It is there from the beginning, so that a stack whose making was interrupted is known."""
UP_LOCK = "up.lock"
OF_FILE_SYSTEMS = frozenset({"lost+found"})
"""What an empty folder may hold where a file system begins."""
FOREIGN_SHOWN = 3


@dataclass(frozen=True)
class Layout:
    """A stack on disk. ``urls`` and ``configs`` have service names as keys, ``credentials`` their own names.
    ``parties_members``: the parties as members of the index, which ``all_parties`` reads at its first use."""

    state_dir: Path
    options: StackOptions
    urls: dict[str, str]
    configs: dict[str, Path]
    credentials: dict[str, Path]
    parties_members: Mapping[str, Any]
    log_key: str
    gateway_key_config: str
    gateway_key_period: int
    policy_path: Path = field(default=Path())

    @cached_property
    def all_parties(self) -> StackParties:
        """The parties of every model. Raises ``UsageError`` if the index does not hold them."""
        from infra.stacks.parties import StackParties

        try:
            return StackParties.read(self.parties_members)
        except (ValueError, KeyError, TypeError) as error:
            raise _no_stack(self.state_dir) from error

    @property
    def parties(self) -> SecureAggregationParties:
        """The parties of recipes of model ``secure-aggregation``."""
        return self.all_parties.base

    def parties_of(self, model: str) -> Parties:
        """Return the parties of recipes of ``model``. Raises ``UsageError`` if the stack has none."""
        return self.all_parties.of(model)

    @property
    def services(self) -> tuple[str, ...]:
        """Names of all services of the stack, witnesses included, in the order in which they are started."""
        return tuple(self.configs)

    @property
    def analyst_key(self) -> Path:
        return self.state_dir / "analyst" / "signing.key"

    @property
    def client_tls(self) -> ClientTls:
        """The authority that an operator's commands trust, and the certificate that they present."""
        if not self.options.tls:
            return ClientTls()
        folder = self.state_dir / OPERATOR
        return ClientTls(*(folder / name for name in CLIENT_FILES.values()))

    def transport(self, **options: Any) -> HttpTransport:
        """Return a client for an operator's commands, for the caller to close; ``options`` go to ``HttpTransport``."""
        return HttpTransport(tls=self.client_tls, **options)

    def operator_token(self, service: str) -> str:
        """Return the operator's bearer token for ``service``; each service has its own. Raises ``UsageError``."""
        if (found := self.credentials.get(operator_credential(service))) is None:
            raise UsageError(f"the {service} of this stack has no operator's resources")
        return first_token(found)

    @property
    def device_authority(self) -> Path:
        """Path of the authority that provisions software-root devices."""
        return self.state_dir / "vendor" / "authority.pem"


def load_layout(state_dir: Path) -> Layout:
    """Load the layout in ``state_dir``. Raises ``UsageError`` if there is none."""
    try:
        index = json.loads((state_dir / INDEX).read_text("utf-8"))
        return Layout(
            state_dir=state_dir,
            options=StackOptions(**index["options"]),
            urls=index["urls"],
            configs={name: state_dir / path for name, path in index["configs"].items()},
            credentials={name: state_dir / path for name, path in index["credentials"].items()},
            parties_members={"parties": index["parties"], "parties_of": index.get("parties_of", {})},
            log_key=index["log_key"],
            gateway_key_config=index["gateway_key_config"],
            gateway_key_period=index["gateway_key_period"],
            policy_path=state_dir / "policy.json",
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _no_stack(state_dir) from error


def claim_folder(state_dir: Path) -> None:
    """Make ``state_dir`` a stack's folder, before anything of the stack is written there. Raises ``UsageError`` if it
    holds files and no stack: keys and databases are not to be mixed with what is somebody else's."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = sorted(path.name for path in state_dir.iterdir())
        if INDEX in found or DRAFT in found:
            return
        foreign = [name for name in found if name not in {UP_LOCK, *OF_FILE_SYSTEMS}]
        if not foreign:
            (state_dir / DRAFT).touch()
            return
    except OSError as error:
        raise UsageError(f"{state_dir}: {error.strerror or 'cannot be used'}") from error
    shown = ", ".join(foreign[:FOREIGN_SHOWN]) + (", ..." if len(foreign) > FOREIGN_SHOWN else "")
    raise UsageError(
        f"{state_dir}: holds files that are not a stack's ({shown}); give a new or empty folder with --state-dir"
    )


def _no_stack(state_dir: Path) -> UsageError:
    return UsageError(f"{state_dir}: no stack here; start one with: tacit up --state-dir {state_dir}")


def write_index(layout: Layout) -> None:
    """Write the index that ``load_layout`` reads, replacing an older one atomically."""

    def relative(paths: dict[str, Path]) -> dict[str, str]:
        return {name: str(path.relative_to(layout.state_dir)) for name, path in paths.items()}

    index = {
        "options": vars(layout.options),
        "urls": layout.urls,
        "configs": relative(layout.configs),
        "credentials": relative(layout.credentials),
        **layout.parties_members,
        "log_key": layout.log_key,
        "gateway_key_config": layout.gateway_key_config,
        "gateway_key_period": layout.gateway_key_period,
    }
    draft = layout.state_dir / DRAFT
    draft.write_text(json.dumps(index, indent=1), "utf-8")
    draft.replace(layout.state_dir / INDEX)


def signing_key_of(layout: Layout) -> SigningKey:
    """Read the analyst's signing key. Raises ``UsageError`` if the file is missing, readable by others or no key."""
    from tacit.service.base.keys import read_signing_key

    return read_signing_key(layout.analyst_key)
