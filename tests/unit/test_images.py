"""What the images hold, without building one: the code of one domain, which suffices to start it, and a bill of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.metadata import Distribution
from pathlib import Path

import idna.core
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from infra.base.service_names import KINDS
from infra.cli import run
from infra.commands.serve import MARKED
from infra.tools.images import selection
from infra.tools.images.bill import FILES_DIGEST, bill_of
from infra.tools.images.context import Context, containerfile
from infra.tools.images.domains import DOMAINS, OWN, Domain, domain_called, domain_of, foreign_to
from infra.tools.images.selection import Selection, distribution_files, select
from tacit.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
SERVING = {"log": ["recipe_server"], "analyst": ["collector", "admin"], "devices": []}


@cache
def selected(name: str) -> Selection:
    return select(domain_called(name))


def services_of(name: str) -> list[str]:
    return SERVING.get(name, [name])


def test_every_service_has_an_image_and_no_two_images_hold_the_same_domain() -> None:
    assert {domain_of(kind).name for kind in KINDS} | {"devices"} == {domain.name for domain in DOMAINS}
    assert domain_of("witness_2") is domain_of("witness")
    packages = [package for domain in DOMAINS for package in domain.packages]
    assert len(packages) == len(set(packages)) == len(KINDS) + 1
    assert MARKED, "services with a mark are among them"
    with pytest.raises(UsageError, match="no image is called sorter; there are attester, issuer"):
        domain_called("sorter")


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_an_image_holds_no_other_domains_code(domain: Domain) -> None:
    found = selected(domain.name)
    foreign = {package.replace(".", "/") for package in foreign_to(domain)}
    assert len(foreign) == len(KINDS) + 1 - len(domain.packages)
    assert not [path for path in found.files if any(path.startswith(f"{one}/") for one in foreign)]
    assert {path.partition("/")[0] for path in found.files} <= set(OWN)
    assert not [
        path
        for path in found.files
        if path.startswith(("infra/lab/", "infra/stacks/layout", "infra/stacks/local", "tests/"))
    ]


def test_images_lack_what_the_import_rules_keep_from_their_domain() -> None:
    """The rules that keep a domain from code hold in its image as in the tree: the code is not there."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    checked = 0
    for rule in rules:
        if rule["type"] != "forbidden" or rule.get("allow_indirect_imports") or rule.get("ignore_imports"):
            continue  # what reaches the code all the same needs it
        for domain in DOMAINS:
            if set(domain.packages) <= set(rule["source_modules"]):
                modules = selected(domain.name).modules
                held = [
                    one for one in rule["forbidden_modules"] for name in modules if (name + ".").startswith(one + ".")
                ]
                assert not held, (rule["name"], domain.name)
                checked += 1
    assert checked >= 20
    relay = selected("relay").modules
    assert not [name for name in relay if re.match(r"tacit\.(hpke|ohttp|vdaf|messages|tokens|recipe)\b", name)]
    assert "tacit.tokens.issuer_key" in selected("issuer").modules


PROGRAM = """
import importlib, sys
sys.path[:0] = {paths!r}
if {guarded!r}:
    class Guard:
        def find_spec(self, name, path=None, target=None):
            top = name.partition(".")[0]
            others = {tops!r} | sys.stdlib_module_names
            known = name in {modules!r} if top in {own!r} else top in others or top[0] == "_"
            if not known:
                raise ModuleNotFoundError(name, name=name)
    sys.meta_path.insert(0, Guard())
importlib.import_module({command!r})
for name in {services!r}:
    from infra.stacks.deployables import deployable
    assert deployable(name).create_app
from infra.cli import run
assert run(["--version"]) == 0
assert run(["recipe", "list"]) == 1, "no traceback, and no such command"
held = [name for name in sys.modules if any(name == one or name.startswith(one + ".") for one in {foreign!r})]
assert not held, held
files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
outside = [path for path in files if "site-packages/" in path and path.partition("site-packages/")[2] not in {lib!r}]
assert not outside, outside
"""


def assert_starts(name: str, paths: list[Path], *, guarded: bool) -> None:
    """Have a new interpreter import what the image starts with from ``paths`` alone."""
    domain, found = domain_called(name), selected(name)
    lib = {place for one in found.distributions.values() for place, _ in files_of(one)}
    program = PROGRAM.format(
        paths=[str(path) for path in paths],
        guarded=guarded,
        own=OWN,
        modules=found.modules,
        command=domain.command,
        services=services_of(name),
        foreign=foreign_to(domain),
        lib=lib,
        tops={re.split(r"[/.]", place)[0] for place in lib},
    )
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "this image has no infra.commands.recipes" in done.stderr


@pytest.mark.parametrize("name", ["relay", "leader"])
def test_the_modules_of_an_image_are_enough_to_start_what_it_is_for(name: str) -> None:
    assert_starts(name, [ROOT, Path(sysconfig.get_path("purelib"))], guarded=True)


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_the_files_of_an_image_are_enough_to_start_what_it_is_for(domain: Domain, tmp_path: Path) -> None:
    """The same of every image from a folder that holds its files and nothing else."""
    found = selected(domain.name)
    laid(found.files.items(), tmp_path / "app")
    for one in found.distributions.values():
        laid(files_of(one), tmp_path / "lib")
    assert_starts(domain.name, [tmp_path / "app", tmp_path / "lib"], guarded=False)


def laid(found: Iterable[tuple[str, Path]], folder: Path) -> None:
    """Have files lie below ``folder`` as links."""
    for place, source in found:
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source)


def files_of(one: Distribution) -> list[tuple[str, Path]]:
    """As ``distribution_files`` has them, without a look into each."""
    return [
        (str(entry), Path(str(one.locate_file(entry))))
        for entry in one.files or ()
        if entry.parts[0] != ".." and entry.suffix != ".pyc"
    ]


def test_a_bill_names_every_distribution_and_is_valid_by_the_published_schema() -> None:
    context = Context(selected("relay"))
    text = bill_of(context.selection, context.digest)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    versions = {name: one.version for name, one in context.selection.distributions.items()}
    named = {one["name"]: one["version"] for one in bill["components"]}
    assert named == {"tacit": bill["metadata"]["component"]["version"], **versions}
    assert bill["metadata"]["component"]["name"] == "tacit-relay"
    assert "sqlalchemy" not in versions, "a relay has no database"
    refs = {one["bom-ref"] for one in bill["components"]}
    needed = {ref for row in bill["dependencies"] for ref in row.get("dependsOn", ())}
    assert needed == refs, "nothing is in the image that nobody needs"
    (own,) = (one for one in bill["components"] if one["name"] == "tacit")
    assert {"name": FILES_DIGEST, "value": context.digest} in own["properties"]
    again = json.loads(bill_of(context.selection, context.digest))
    assert (
        again["serialNumber"]
        == bill["serialNumber"]
        != json.loads(bill_of(context.selection, "00" * 32))["serialNumber"]
    )


def test_a_file_that_is_not_what_was_installed_is_found(tmp_path: Path) -> None:
    info = tmp_path / "thing-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1\n")
    good = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"  # of nothing
    (info / "RECORD").write_text(f"thing.py,sha256={good},0\n../bin/thing,,\nthing-1.dist-info/RECORD,,\n")
    (tmp_path / "thing.py").write_text("")
    thing = Distribution.at(info)
    assert [place for place, _ in distribution_files(thing)] == ["thing.py", "thing-1.dist-info/RECORD"]
    (tmp_path / "thing.py").write_text("import os")
    with pytest.raises(UsageError, match="not the file that was installed with thing"):
        list(distribution_files(thing))
    (tmp_path / "thing.py").unlink()
    with pytest.raises(UsageError, match="reinstall thing"):
        list(distribution_files(thing))


def test_a_context_has_the_files_their_bytecode_and_a_name_by_its_contents(tmp_path: Path) -> None:
    whole = selected("relay")
    context = Context(replace(whole, distributions={"idna": whole.distributions["idna"]}))
    made = context.write(tmp_path)
    assert (made / "lib" / "idna" / "core.py").read_bytes() == Path(idna.core.__file__).read_bytes()
    assert {path.name for path in made.iterdir()} == {"app", "lib", "etc", "Containerfile", "sbom.cdx.json"}
    written = {str(path.relative_to(made / "app")) for path in (made / "app").rglob("*") if path.is_file()}
    sources = {path for path in written if not path.endswith(".pyc")}
    assert sources == set(context.selection.files)
    assert {path for path in sources if path.endswith(".py")} == {
        re.sub(r"__pycache__/(\w+)\.cpython-\d+\.pyc", r"\1.py", path) for path in written - sources
    }
    name = context.image("localhost/base:1")
    assert re.fullmatch(r"localhost/tacit-relay:\d+\.\d+\.\d+-[0-9a-f]{12}", name)
    assert name != context.image("localhost/base:2")
    assert name == Context(replace(context.selection)).image("localhost/base:1")
    assert name != Context(whole).image("localhost/base:1")


def test_the_containerfile_runs_nothing_and_ends_as_nobody_special() -> None:
    lines = [line for line in containerfile().splitlines() if line and not line.startswith("#")]
    instructions = [line.split()[0] for line in lines]
    assert instructions[:2] == ["ARG", "FROM"]
    assert "RUN" not in instructions
    assert "ADD" not in instructions
    assert lines[0] == "ARG BASE", "without a default, which a tag would be"
    (user,) = (line.split()[1] for line in lines if line.startswith("USER"))
    assert user == "10001:10001"
    (entry,) = (line.partition(" ")[2] for line in lines if line.startswith("ENTRYPOINT"))
    assert json.loads(entry) == ["python3", "-m", "infra.cli"], "a program, no line for a shell"


def test_an_installation_of_before_a_new_requirement_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tuple(one for one in selection._own_requirements() if one[0] != "httptools")
    monkeypatch.setattr(selection, "_own_requirements", lambda: asked)
    monkeypatch.setattr(selection, "_ever_asked_for", lambda: frozenset(name for name, _ in asked))
    with pytest.raises(UsageError, match="httptools is imported, but the installed Tacit does not require it"):
        select(domain_called("relay"))


@pytest.mark.parametrize(
    ("base", "is_taken"),
    [
        ("docker.io/library/python:3.11-slim", False),
        ("python@sha256:abc", False),
        (f"docker.io/library/python:3.11-slim@sha256:{'ab' * 32}", True),
    ],
)
def test_a_release_is_built_on_a_base_that_its_digest_names(
    base: str, is_taken: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["staging", "images", "--no-build", "--only", "relay", "--out", str(tmp_path / "out"), "--base", base]
    assert run([*words, "--release"]) == (0 if is_taken else 1)
    assert ("a tag, which may name another image" in capsys.readouterr().err) is not is_taken
    assert (tmp_path / "out").exists() is is_taken
