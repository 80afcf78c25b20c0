"""What is kept on disk: arrays without pickled objects, JSON for the rest, nothing half-written."""

from noisewise.runs.archive import read_archive, write_archive

__all__ = ["read_archive", "write_archive"]
