"""`sluice cells`: the cells in which this one places jobs."""

import click

from .drain import drain, resume
from .look import describe_cell, list_cells


@click.group()
def cells() -> None:
    """Look at the cells in which this one, a manager, places jobs; keep jobs away from one.

    A cell is a MultiKueueCluster; ladders (CellLadder) say which checks place jobs in it, and the dispatcher
    does. What these commands show is what the dispatcher knows, so it can be asked of the past, and of
    exported logs. `sluice why JOB` says the same of one job.

    \b
    Examples:
      sluice cells list                     which are in reach, and what they have
      sluice cells describe near            its jobs, and since when they are there
      sluice cells drain near               no more jobs; those that run there stay
      sluice cells drain near --move        ... and go elsewhere
      sluice cells resume near
    """


for _command in (list_cells, describe_cell, drain, resume):
    cells.add_command(_command)
