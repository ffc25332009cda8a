"""An admission check for tests: it answers what a file says. `python -m tests.e2e.late_check`

CHECK_ANSWERS is a directory with a file per job: `ready`, or `preempt` (PreemptionRequired, asked again until
the file says something else). Without a file it keeps the workload waiting.
"""

import os
from pathlib import Path
from typing import Any

from sluice.sdk.checks import Controller, Pending, PreemptionRequired, Ready, Request, Settings, Verdict

NAME = "example.com/late"

app = Controller(NAME, settings=Settings(ttl_s=2, drain_s=1, backoff_s=0.2))
answers = Path(os.environ.get("CHECK_ANSWERS", "."))


@app.check
async def check(request: Request[Any]) -> Verdict:
    answer = answers / request.workload.job
    said = answer.read_text().strip() if answer.exists() else ""
    if said == "ready":
        return Ready()
    if said == "preempt":
        return PreemptionRequired("nobody fits beside what runs", 0.1)
    return Pending("nobody has answered", 0.1)


if __name__ == "__main__":
    app.run()
