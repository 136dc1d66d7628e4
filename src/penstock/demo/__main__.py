"""`python -m penstock.demo`."""

import sys

from penstock.demo import main

sys.exit(main())
