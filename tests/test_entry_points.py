"""What plugins add by entry points: backends and families are read, and broken ones left out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.record_factories import LAPTOP

from envbench import backends, families
from envbench.backends import get
from envbench.backends.builtin import BUILT_IN
from envbench.engine.experiment import Options, Site
from envbench.engine.request import CellRequest
from envbench.errors import UsageError
from envbench.experiments.check.cells import cells_to_check
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


def test_a_check_measures_a_usual_family_only_with_the_backends_that_run_it(
    plugins: Plugins,
) -> None:
    install_family(plugins, "revfam", usual=True, default_task="A-v0")
    profile = Profile(name="here", title="Here", atari=Table(numenv=[1], rows=["for-loop"]))
    chosen = cells_to_check(
        CellRequest(), Site(profile=profile, fingerprint=LAPTOP, options=Options())
    )
    cells = [(each.cell.env, each.cell.backend) for each in chosen.targets]
    assert [backend for env, backend in cells if env == "revfam"] == ["for-loop"]
    assert len(cells) == 2 * 3 + 1


ANOTHER_ATARI = """
FAMILY = {'title': 'Mine', 'worker': 'a:B', 'frames': 1, 'backends': ['for-loop']}
"""


@pytest.mark.parametrize(
    ("name", "source", "says"),
    [
        ("family-quitting", "raise SystemExit(0)", "SystemExit"),
        ("family-of-no-kind", "FAMILY = 7", "its value has the type int"),
        (
            "atari",
            "FAMILY = {'title': 'Mine', 'worker': 'a:B', 'frames': 1}",
            "`backends` is empty",
        ),
        ("atari", ANOTHER_ATARI, "the name 'atari' is taken"),
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
        ({"frames": -3}, "Expected `float` >= 0.001 - at `$.frames`"),
        ({"frames": 1001}, "Expected `float` <= 1000.0 - at `$.frames`"),
        ({"frames": None, "frames_of": {"A": 0}}, "Expected `float` >= 0.001 - at `$.frames_of"),
        ({"frames": None, "frames_of": {"A": 1}, "default_task": "B-v0"}, "`frames` is missing"),
        ({"backends": ["nosuch"]}, "`backends`: 'nosuch' is not one of for-loop,"),
        ({"backends": ["ceiling"]}, "`backends`: 'ceiling' is not one of"),
        ({"backends": []}, "`backends` is empty"),
        ({"rows": ["nope"]}, "`rows`: 'nope' is not one of for-loop,"),
        ({"rows": []}, "`rows` is empty"),
        ({"rows": ["for-loop", "for-loop"]}, "`rows` is empty, or names a backend twice"),
        ({"usual": True}, "`default_task` is missing"),
        ({"lock_steps": -5}, "Expected `int` >= 1 - at `$.lock_steps`"),
        ({"standards": {"env": {"steps": -3}}}, "Expected `int` >= 0 - at `$.standards[...].steps"),
        ({"standards": {"env": {"tolerance": -1.0}}}, "at `$.standards[...].tolerance`"),
        (
            {"standards": {"env": {"reference": "nope"}}, "follows_by": "seed"},
            "`standards`: the reference 'nope' is not one of the `backends`",
        ),
        (
            {"standards": {"env": {}}, "backends": ["subprocess"]},
            "the reference 'for-loop' is not one of the `backends`",
        ),
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
