"""The lake: archives of the log, each a Delta table, in a folder or an object store.

    lake = Lake("s3://bucket/turnabout")
    polars.scan_delta(lake.uri("archive"))

`_storage` is where tables lie, `_files` writes Parquet files and measures them, `_table` an archive
while it is written, `_lake` what readers see. Knows nothing of Spark and of databases.
Layout and promises: docs/design/pipeline.md, "The lake".
"""

from __future__ import annotations

from turnabout.pipeline.lake._files import LakeDamaged, WrittenFile, write
from turnabout.pipeline.lake._filter import Filter, matched
from turnabout.pipeline.lake._lake import Lake, LakeFile
from turnabout.pipeline.lake._storage import Storage
from turnabout.pipeline.lake._table import ArchiveTable, Commit, Overtaken

__all__ = [
    "ArchiveTable",
    "Commit",
    "Filter",
    "Lake",
    "LakeDamaged",
    "LakeFile",
    "Overtaken",
    "Storage",
    "WrittenFile",
    "matched",
    "write",
]
