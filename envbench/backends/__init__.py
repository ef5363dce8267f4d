"""What can be measured, as data: the specification, the built-in backends, and plugins."""

from envbench.backends.lookup import (
    check_family,
    get,
    is_built_in,
    of_record,
    plugin_warnings,
    preset_settings,
    registry,
    resolve_settings,
    row_label,
    same_work,
    steps_in_processes,
)
from envbench.backends.specification import (
    ACTIONS,
    Backend,
    Needs,
    Setting,
    env_instances,
    shown,
    trouble,
    with_role,
)
