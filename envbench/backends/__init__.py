"""What can be measured, as data: the specification, the built-in backends, and plugins."""

from envbench.backends.lookup import (
    check_family,
    get,
    has_own_engine,
    has_role,
    is_built_in,
    plugin_warnings,
    preset_settings,
    registry,
    resolve_settings,
    row_label,
    same_work,
    steps_in_processes,
)
from envbench.backends.settings import Setting
from envbench.backends.specification import ACTIONS, Backend, Needs, env_instances, trouble

__all__ = [
    "ACTIONS",
    "Backend",
    "Needs",
    "Setting",
    "check_family",
    "env_instances",
    "get",
    "has_own_engine",
    "has_role",
    "is_built_in",
    "plugin_warnings",
    "preset_settings",
    "registry",
    "resolve_settings",
    "row_label",
    "same_work",
    "steps_in_processes",
    "trouble",
]
