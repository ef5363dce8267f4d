"""In which Atari games does the memory after a reset differ from reset to reset, and why?

    python tests/studies/game_memories.py            # every game of ale-py; about ten minutes
    python tests/studies/game_memories.py boxing     # some; nothing is recorded

``envbench verify`` puts its reference into the state in which a game begins. That works if the
reference knows each memory that a reset can lead to, and if memory and actions decide what follows.
The table is in docs/studies.md, the findings are in results/studies/game-memories.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
from document import fill
from tabulate import tabulate

FINDINGS = Path(__file__).parents[2] / "results" / "studies" / "game-memories" / "findings.jsonl"
RESETS = 100  # as in envbench_families.atari
STEPPED = 150  # frames between two resets of the second emulator
FRAMES, REPEATS = 800, 40  # frames after a reset that are compared, for so many resets


def emulator(game: str) -> Any:
    from ale_py import ALEInterface, LoggerMode, roms

    ALEInterface.setLoggerMode(LoggerMode.Error)
    made = ALEInterface()
    made.setInt("random_seed", 1)
    made.setFloat("repeat_action_probability", 0.0)
    made.loadROM(roms.get_rom_path(game))
    return made


def finding(game: str) -> dict[str, Any]:
    """``memories``: after resets without steps. ``new``: those that only steps before the reset
    lead to. ``screens``: the most sequences of screens that follow one memory."""
    import numpy as np

    one, other = emulator(game), emulator(game)
    actions = one.getMinimalActionSet()
    chance = np.random.default_rng(0)
    plain, stepped = set(), set()
    for _ in range(RESETS):
        one.reset_game()
        other.reset_game()
        plain.add(one.getRAM().tobytes())
        stepped.add(other.getRAM().tobytes())
        for index in chance.integers(len(actions), size=STEPPED):
            other.act(actions[index])
    played = [actions[index] for index in chance.integers(len(actions), size=FRAMES)]
    screens: dict[bytes, set[int]] = {}
    for _ in range(REPEATS):
        one.reset_game()
        known = screens.setdefault(one.getRAM().tobytes(), set())
        seen = []
        for action in played:
            one.act(action)
            seen.append(one.getScreenGrayscale()[::2, ::2].tobytes())
        known.add(hash(b"".join(seen)))
    return {
        "game": game,
        "memories": len(plain),
        "new": len(stepped - plain),
        "screens": max(map(len, screens.values())),
    }


def separately(game: str) -> dict[str, Any]:
    """The finding of a new process: some games for two players end it."""
    done = subprocess.run(
        [sys.executable, __file__, game], capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return dict(json.loads(lines[-1])) if lines else {"game": game, "failed": True}


def table(found: list[dict[str, Any]]) -> str:
    known = [each for each in found if not each.get("failed")]
    plain = [each for each in known if not each["new"] and each["screens"] == 1]
    kinds = {
        "one memory": [each for each in plain if each["memories"] == 1],
        "several memories": [each for each in plain if each["memories"] > 1],
        "a memory that depends on the game before": [each for each in known if each["new"]],
        "screens that the memory does not decide": [each for each in known if each["screens"] > 1],
    }
    rows = [
        [kind, len(some), ", ".join(each["game"] for each in some) if kind != "one memory" else ""]
        for kind, some in kinds.items()
    ]
    heads = ["after a reset", "games", "which"]
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True)


@click.command()
@click.argument("games", nargs=-1)
def main(games: tuple[str, ...]) -> None:
    """Study these games, or all of them and fill the table."""
    if games:
        for game in games:
            click.echo(json.dumps(finding(game)))
        return
    from ale_py import roms

    found = []
    FINDINGS.parent.mkdir(parents=True, exist_ok=True)
    with FINDINGS.open("w", encoding="utf-8") as file:
        for game in sorted(roms.get_all_rom_ids()):
            found.append(separately(game))
            file.write(json.dumps(found[-1]) + "\n")
            file.flush()
    fill("game-memories", table(found))


if __name__ == "__main__":
    main()
