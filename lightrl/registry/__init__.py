"""Finding, loading and naming what installed packages register."""
