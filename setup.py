"""Makes the package page from README.md; everything else is in pyproject.toml."""

import re
from pathlib import Path

from setuptools import setup

README = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
# a package page has no files beside it: pictures are left out, and of a link to a file its text remains
WITHOUT_PICTURES = re.sub(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n*", "", README)
PAGE = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", WITHOUT_PICTURES)

setup(long_description=PAGE, long_description_content_type="text/markdown")
