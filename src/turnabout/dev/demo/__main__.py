"""`python -m turnabout.dev.demo`."""

import sys

from turnabout.dev.demo import main

sys.exit(main())
