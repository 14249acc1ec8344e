"""The log for other programs: its rows as lines and files that they read.

Pure but for the one that writes Parquet: records in, bytes out. Where they come from and go to is
for ``log.snapshot`` and for whoever asked.
"""

__all__: list[str] = []
