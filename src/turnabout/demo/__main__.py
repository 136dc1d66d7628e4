"""`python -m turnabout.demo`."""

import sys

from turnabout.demo import main

sys.exit(main())
