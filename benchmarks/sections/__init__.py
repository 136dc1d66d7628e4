"""The tables, one file each, in the order in which they are measured."""

from benchmarks.sections import (
    events,
    fairness,
    imports,
    limited,
    parked,
    pipeline,
    server,
)

BY_NAME = {
    section.name: section
    for section in (
        imports.SECTION,
        server.SECTION,
        parked.SECTION,
        events.SECTION,
        limited.SECTION,
        fairness.SECTION,
        pipeline.SECTION,
    )
}
