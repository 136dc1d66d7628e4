"""`turnabout pipeline`: Apache Spark on the queue's database. A file for each group of commands."""

from __future__ import annotations

from turnabout.cli._declare import group
from turnabout.pipeline.commands import doctor, jobs, report, status


@group(
    "pipeline",
    "turnabout pipeline doctor",
    "turnabout pipeline run archive --lake /var/lib/turnabout/lake",
    "turnabout pipeline status",
    short_help="Apache Spark: archive, replay, report, streams.",
)
def pipeline() -> None:
    """Bulk work on the database, by Apache Spark on this machine or a cluster.

    Streams need the extra `spark` and Java 17 or later; the extra `spark-jre` brings both. Jobs and
    reports do with the extra `lake`.
    """


jobs.run.add_section("Reports", report.report)
pipeline.add_section("Jobs", jobs.run)
pipeline.add_section("Looking", status.status, status.lake, doctor.doctor)
pipeline.add_section("By hand", status.release, status.forget)

SECTIONS = {"Data pipeline": (pipeline,)}
