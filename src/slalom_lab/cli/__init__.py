"""The commands that the command line has from here."""

import slalom.cli  # noqa: F401 - first: it takes the commands from the modules below
from slalom_lab.cli.bench import bench
from slalom_lab.cli.league import league
from slalom_lab.cli.reproduce import reproduce
from slalom_lab.cli.train import train

__all__ = ["bench", "league", "reproduce", "train"]
