"""`python -m tfring.launcher.remote`: the agent of a host that ssh reached.

What it shall do comes through standard input; nothing secret is on its command line.
"""

from __future__ import annotations

import os

from tfring import config
from tfring.launcher.agent import Agent


def main() -> int:
    """Runs the agent on standard input and output, to its exit status."""
    control, report = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    # What a library prints must not get among the messages.
    os.dup2(2, 1)
    return Agent(control, report, config.environment()).run()


if __name__ == "__main__":
    main()
