"""What plugins add by entry points: backends and families are read, and broken ones left out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbench import backends, families
from envbench.backends import get
from envbench.backends.builtin import BUILT_IN
from envbench.engine.request import CellRequest, choose
from envbench.errors import UsageError
from envbench.machine import Profile, Table

BY_NAME = {backend.name: backend for backend in BUILT_IN}


class Plugins:
    """Installs packages as a wheel does: a module and its ``dist-info``."""

    def __init__(self, site: Path) -> None:
        self.site = site

    def install(self, name: str, source: str, entry: str = "BACKEND", group: str = "") -> None:
        module = name.replace("-", "_")
        (self.site / f"{module}.py").write_text(source)
        sys.modules.pop(module, None)  # of another test
        info = self.site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        group = group or "envbench.backends"
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{entry}\n")


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugins]:
    monkeypatch.syspath_prepend(str(tmp_path))
    registries = (backends.BACKENDS, families.FAMILIES)
    for registry in registries:
        vars(registry).pop("loaded", None)
    yield Plugins(tmp_path)
    for registry in registries:
        vars(registry).pop("loaded", None)


def as_mapping(**changes: object) -> str:
    fields = {"label": "Mine", "families": ["gym"], "adapter": "no.such:Thing", "library": "mine"}
    return f"BACKEND = {fields | changes!r}"


def test_a_mapping_of_a_plugin_becomes_a_backend_after_the_built_ins(plugins: Plugins) -> None:
    plugins.install("mapped", as_mapping())
    assert list(backends.registry()) == [*BY_NAME, "mapped"]
    assert get("mapped").label == "Mine"  # though its adapter cannot be imported
    assert backends.plugin_warnings() == []


def install_family(plugins: Plugins, point: str, **changes: object) -> None:
    fields = {"title": "Mine", "worker": "no.such:Mine", "frames": 1, "backends": ["for-loop"]}
    plugins.install(point, f"FAMILY = {fields | changes!r}", "FAMILY", group="envbench.families")


def test_a_family_of_a_plugin_has_no_ceiling(plugins: Plugins) -> None:
    install_family(plugins, "revfam")
    backends.check_family(get("for-loop"), "revfam")
    with pytest.raises(UsageError, match="cannot run revfam: no ceiling is known for revfam"):
        backends.check_family(get("ceiling"), "revfam")


def test_a_backend_object_of_a_plugin_is_used_unchanged(plugins: Plugins) -> None:
    plugins.install(
        "direct",
        "from envbench.backends import Backend\n"
        "BACKEND = Backend(name='direct', label='D', families=['gym'], adapter='a:B', library='x')",
    )
    assert get("direct").label == "D"


@pytest.mark.parametrize(
    ("name", "source", "says"),
    [
        ("raising", "raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("quitting", "raise SystemExit(0)", "SystemExit"),
        ("missing", "OTHER = 1", "AttributeError"),
        ("of-no-kind", "BACKEND = 7", "its value has the type int"),
        ("for-loop", as_mapping(), "is taken"),
        ("extra", as_mapping(speed=9), "unknown field `speed`"),
        ("mistyped", as_mapping(repeats="five"), "repeats"),
        ("unnamed", as_mapping(name="../../x"), "is not a name"),
        ("no-adapter", as_mapping(adapter="nowhere"), "module:attribute"),
        ("family", as_mapping(families=["chess"]), "chess"),
        ("escaping", as_mapping(label="\x1b[31mred"), "control characters"),
        ("bell", "raise ValueError('\\x1b[2J\\x07')", "ValueError"),
        ("twin", as_mapping(label="EnvPool (sync)"), "the label 'EnvPool (sync)' is taken"),
        (
            "default",
            as_mapping(settings=[{"name": "n", "type": "int", "default": "few"}]),
            "takes a whole number",
        ),
    ],
)
def test_the_warning_for_a_broken_plugin_names_its_package_and_the_fix(
    plugins: Plugins, name: str, source: str, says: str
) -> None:
    plugins.install(name, source)
    plugins.install("sound", as_mapping())
    assert list(backends.registry()) == [*BY_NAME, "sound"]
    assert get("for-loop").label == "For-loop"
    (warning,) = backends.plugin_warnings()
    assert says in warning
    assert f"uninstall {name!r}" in warning
    assert warning.isprintable()


@pytest.mark.parametrize(
    ("name", "source", "says"),
    [
        ("family-quitting", "raise SystemExit(0)", "SystemExit"),
        ("family-of-no-kind", "FAMILY = 7", "its value has the type int"),
        ("atari", "FAMILY = {'title': 'Mine', 'worker': 'a:B', 'frames': 1}", "is taken"),
        ("family-mistyped", "FAMILY = {'title': 7, 'worker': 'a:B'}", "title"),
    ],
)
def test_the_warning_for_a_broken_family_names_its_package_and_the_fix(
    plugins: Plugins, name: str, source: str, says: str
) -> None:
    plugins.install(name, source, "FAMILY", group="envbench.families")
    plugins.install("chess", FAMILY_FOR_THE_LOOP, "FAMILY", group="envbench.families")
    assert list(families.registry()) == [*[each.name for each in families.BUILT_IN], "chess"]
    assert "chess" in get("for-loop").families
    (warning,) = backends.plugin_warnings()
    assert says in warning
    assert f"uninstall {name!r}" in warning


FAMILY_FOR_THE_LOOP = """
from envbench.families import EnvFamily
FAMILY = EnvFamily(name='chess', title='Chess', worker='a:B', frames=1, backends=['for-loop'])
"""


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "my-family"}, "`name` 'my-family' cannot name a table of a profile"),
        ({"name": "check"}, "`name` 'check' cannot name"),
        ({"name": "class"}, "`name` 'class' cannot name"),
        ({"title": "A | B"}, "`title` is part of a table's marker: it cannot contain < > | or --"),
        ({"title": "<b>"}, "it cannot contain < > | or --"),
        ({"title": " A"}, "`title` must be one printable line of 1 to 80 characters"),
        ({"title": ""}, "`title` must be one printable line"),
        ({"title": "Atari"}, "the title 'Atari' is taken; choose another one"),
        ({"title": "Chess"}, "the title 'Chess' is taken"),  # by another plugin
        ({"worker": "nowhere"}, "`worker` 'nowhere' is not 'module:Class'"),
        ({"default_task": "\x1b[31m"}, "`default_task`"),
        ({"frames": None}, "`frames` is missing: frames per step (or give `frames_of` or"),
        ({"frames": -3}, "`frames` of -3: a step has 0.001 to 1000 frames"),
        ({"frames": None, "frames_of": {"A": 0}}, "`frames` of 0: a step has"),
        ({"backends": ["nosuch"]}, "`backends`: 'nosuch' is not one of for-loop,"),
        ({"backends": ["ceiling"]}, "`backends`: 'ceiling' is not one of"),
    ],
)
def test_the_warning_for_a_family_with_a_wrong_field_names_its_package(
    plugins: Plugins, changes: dict[str, object], says: str
) -> None:
    plugins.install("chess", FAMILY_FOR_THE_LOOP, "FAMILY", group="envbench.families")
    install_family(plugins, "wrong", **changes)
    assert list(families.registry()) == [*[each.name for each in families.BUILT_IN], "chess"]
    (warning,) = backends.plugin_warnings()
    assert says in warning
    assert "'wrong' of the package 'wrong' is left out" in warning


def test_a_family_without_a_backend_is_reported_as_such(plugins: Plugins) -> None:
    install_family(plugins, "lonely", default_task="A-v0", backends=[])
    profile = Profile(name="here", title="Here", atari=Table(numenv=[1], rows=["for-loop"]))
    for numenv in (None, [1]):
        with pytest.raises(UsageError, match="no backend runs lonely") as caught:
            choose(CellRequest(family="lonely", numenv=numenv), profile)
        assert "package" in caught.value.hint
