"""`python -m lightrl` is `lightrl`."""

import sys

from lightrl.cli import main

sys.exit(main())
