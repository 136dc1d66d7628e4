"""The tables, one file each, in the order in which they are measured."""

from benchmarks.sections import (
    client,
    events,
    fairness,
    growth,
    imports,
    in_flight,
    limited,
    parked,
    pipeline,
    receive,
    send,
    server,
    snapshot,
)

BY_NAME = {
    section.name: section
    for section in (
        imports.SECTION,
        client.SECTION,
        send.SECTION,
        receive.SECTION,
        server.SECTION,
        parked.SECTION,
        events.SECTION,
        in_flight.SECTION,
        limited.SECTION,
        fairness.SECTION,
        growth.SECTION,
        snapshot.SECTION,
        pipeline.SECTION,
    )
}
