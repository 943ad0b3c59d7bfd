import sys
from pathlib import Path

# The benchmarks are no part of the package that is installed: they are found beside it.
sys.path.insert(0, str(Path(__file__).parents[2]))
