"""The ceiling of atari: the emulator alone, with random actions of the game's minimal set.

One call of ``act`` emulates all frames of a step (ALE's ``frame_skip``), and draws the last screen.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any, Dict, List

import ale_py
import envbench_families
import gymnasium
from ale_py import roms
from envbench_families import atari
from envbench_worker.contract import EMULATOR, Counts

from envbench_adapters.ceiling.ceiling import Core


class AleCore(Core):
    counted_by = EMULATOR

    def tasks(self) -> List[str]:
        gymnasium.register_envs(ale_py)
        return envbench_families.of(self.job).tasks()

    def build(self) -> None:
        gymnasium.register_envs(ale_py)
        self.game = gymnasium.spec("ALE/" + self.job.task).kwargs["game"]
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale = ale_py.ALEInterface()
        ale.setInt("random_seed", self.job.seed)
        ale.setInt("frame_skip", int(self.job.frame_skip))
        ale.setInt("max_num_frames_per_episode", atari.MAX_FRAMES)
        ale.setFloat("repeat_action_probability", 0.0)
        ale.loadROM(roms.get_rom_path(self.game))
        minimal = ale.getMinimalActionSet()
        self.bank = self.columns(gymnasium.spaces.Discrete(len(minimal)))
        self.actions = cycle([minimal[int(batch[0])] for batch in self.bank])
        self.before = 0  # frames of episodes that ended in the latest run
        self.began = 0

    def run(self, calls: int) -> Counts:
        ale, act, over = self.ale, self.ale.act, self.ale.game_over
        resets = 0
        self.before, self.began = 0, self._whole_steps()
        for action in islice(self.actions, calls):
            if over():
                self.before += self._whole_steps()
                ale.reset_game()
                resets += 1
            else:
                act(action)
        return Counts(calls - resets, resets)

    def _whole_steps(self) -> int:
        """Frames of this episode. A last step that was cut short counts as a whole one."""
        skip = int(self.job.frame_skip)
        return -(-int(self.ale.getEpisodeFrameNumber()) // skip) * skip

    def recount(self) -> float:
        return float(self.before + self._whole_steps() - self.began)

    def work(self) -> Dict[str, Any]:
        observed = ("max_pool", "resize", "grayscale", "screen", "stack")  # not by this core
        found = dict(atari.reference(self.job), noop_max=0)
        return {name: value for name, value in found.items() if name not in observed}

    def facts(self) -> Dict[str, Any]:
        return dict(super().facts(), game=self.game)
