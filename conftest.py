"""Settings of every test of the core and of the plugins."""

from hypothesis import settings

# a pause of the garbage collector in the middle of an example is no fault of the code that is tried
settings.register_profile("search", deadline=None)
# the same examples in every run: a test fails at the change that breaks it; `pytest --hypothesis-profile=search` tries others
settings.register_profile("lightrl", settings.get_profile("search"), derandomize=True)
settings.load_profile("lightrl")
