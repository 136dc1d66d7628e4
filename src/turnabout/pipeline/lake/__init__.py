"""The lake: the log as Parquet files in a folder, and a manifest that says which of them count.

    lake = Lake("/var/lib/turnabout/lake")
    duckdb.read_parquet(lake.paths())

`_lake` is the folder, `_log` an archive while one process works on it, `_commits` a commit as JSON,
`_footer` what a Parquet file tells, `_disk` what touches the disk, step by step. Knows nothing of
Spark and of databases.
Layout and promises: docs/design/pipeline.md, "The lake".
"""

from __future__ import annotations

from turnabout.pipeline.lake._commits import FORMAT, Commit, File, Lost
from turnabout.pipeline.lake._disk import LakeDamaged, Taken
from turnabout.pipeline.lake._lake import Lake
from turnabout.pipeline.lake._log import CommitLog, Overtaken, hold

__all__ = [
    "FORMAT",
    "Commit",
    "CommitLog",
    "File",
    "Lake",
    "LakeDamaged",
    "Lost",
    "Overtaken",
    "Taken",
    "hold",
]
