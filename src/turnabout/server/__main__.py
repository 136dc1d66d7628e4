"""`python -m turnabout.server`: one process of `turnabout serve --processes`."""

import sys

from turnabout.server.processes import main

if __name__ == "__main__":
    sys.exit(main())
