"""The pipeline's own statements, in `sql/` beside this file."""

from collections.abc import Mapping
from pathlib import Path

from turnabout.sqlite import _statements

FOLDER = Path(__file__).parent / "sql"


def statements(file: str) -> Mapping[str, str]:
    """The statements of `sql/<file>.sql` by their names."""
    return _statements.statements(file, FOLDER)
