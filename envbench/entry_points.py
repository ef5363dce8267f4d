"""Read what other installed packages add: backends and env families, beside the built-in ones.

The value of a plugin's entry point is the data itself or a mapping of its fields (``name`` defaults
to the entry point's). Its module is imported here, so it must contain only data. A plugin that
cannot be read, or that takes a known name, causes a warning, never a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec

from envbench.errors import Interrupted, UnknownName, UsageError
from envbench.text import one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


@dataclass(kw_only=True)
class Registry(Generic[T]):
    """Every value of one kind, in the order of a report: built-ins, then plugins of the ``group``.

    No two values are equal in a ``unique`` field. ``problem`` says what is wrong with a plugin's
    value, or "".
    """

    kind: type[T]
    group: str
    noun: str
    built_in: Callable[[], Iterable[T]]
    unique: tuple[str, ...]
    problem: Callable[[T], str]

    @cached_property
    def loaded(self) -> tuple[dict[str, T], list[str]]:
        """The values by name, and one sentence per plugin that was left out: its package, the
        problem and the fix."""
        from importlib.metadata import entry_points

        known, warnings = {value.name: value for value in self.built_in()}, []
        for point in sorted(entry_points(group=self.group), key=lambda point: point.name):
            try:
                value = _value(point, self.kind)
                wrong = self.problem(value) or self._taken(value, known.values())
            except Interrupted:  # a signal, not an error of the plugin
                raise
            except (msgspec.ValidationError, UsageError) as error:
                wrong = str(error)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
                wrong = f"it cannot be imported: {type(error).__name__}: {error}"
            if wrong:
                warnings.append(_left_out(point, self.noun, wrong))
            else:
                known[value.name] = value
        return known, warnings

    def _taken(self, value: T, known: Iterable[T]) -> str:
        for other, field in product(known, self.unique):
            if (text := getattr(value, field)) == getattr(other, field):
                return f"the {field} {text!r} is taken; choose another one"
        return ""

    def by_name(self) -> dict[str, T]:
        return dict(self.loaded[0])

    def get(self, name: str) -> T:
        """Return the value of that name; ``UnknownName`` suggests the nearest name."""
        known = self.loaded[0]
        if name not in known:
            raise UnknownName(self.noun, name, list(known))
        return known[name]


def _value(point: EntryPoint, kind: type[T]) -> T:
    value = point.load()
    if isinstance(value, Mapping):
        value = {"name": point.name, **value}
    elif not isinstance(value, kind):
        raise UsageError(f"its value has the type {type(value).__name__}, not {kind.__name__}")
    # Also convert a value of the right type, because its constructor does not check fields.
    return msgspec.convert(msgspec.to_builtins(value), kind)


def _left_out(point: EntryPoint, noun: str, wrong: str) -> str:
    package = point.dist.name if point.dist else "an unnamed package"
    sentence = (
        f"the {noun} {point.name!r} of the package {package!r} is left out: {wrong} "
        f"(entry point {point.value!r}). Update or uninstall {package!r}."
    )
    return one_line(sentence, 1000)
