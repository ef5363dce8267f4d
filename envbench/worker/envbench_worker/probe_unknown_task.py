"""A worker that first probes an unknown task: ``probe_unknown_task.py JOB_DIR EVENT_FD``.

The contract test (``envbench.testing``) runs it, so that one process makes both probes.
"""

import os
import sys
from typing import Any, Dict

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from envbench_worker import __main__ as worker


class ProbingWorker(worker.Worker):
    def reply(self) -> Dict[str, Any]:
        """Reply to the job, with another fact: what a probe of an unknown task replied."""
        job, self.job = self.job, dict(self.job, mode="probe", task="NoSuchTaskAnywhere-v0")
        refused, self.job = dict(super().reply(), task=self.job["task"]), job
        reply = super().reply()
        return dict(reply, facts=dict(reply.get("facts", {}), unknown_task=refused))


if __name__ == "__main__":
    worker.Worker = ProbingWorker  # type: ignore[misc]
    worker.main(sys.argv[1], int(sys.argv[2]))
