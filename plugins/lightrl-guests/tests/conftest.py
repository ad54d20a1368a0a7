"""The folder of the tests on the import path: planted classes are named by their paths, in workers too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
