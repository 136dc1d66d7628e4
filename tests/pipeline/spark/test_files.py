"""What Spark may not do with an SQLite file: it is told at once, and where to go."""

import pytest

from tests.pipeline.spark.played import source, struct
from tests.support.each import each
from turnabout.words.errors import UsageError

URL = "sqlite:////nowhere/app.db"
WHERE_TO = r"needs PostgreSQL, as Spark's executors can't reach.*turnabout move.*mode log"


def test_no_stream_leases_from_it() -> None:
    made = source(URL, mode="lease", subscribe="emails", subscription="s")
    with pytest.raises(UsageError, match=f"^mode=lease {WHERE_TO}"):
        made.streamReader(struct(made.schema()))


@each("kind", ["writer", "streamWriter"])
def test_nothing_is_written_into_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNABOUT_URL", URL)
    for url in (URL, "env:TURNABOUT_URL"):
        made = source(url, queue="emails")
        with pytest.raises(UsageError, match=f"^the sink {WHERE_TO}"):
            getattr(made, kind)(struct("value string"), False)
