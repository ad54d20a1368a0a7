"""Settings of every test of the core and of the plugins."""

from hypothesis import settings

# a pause of the garbage collector in the middle of an example is no fault of the code that is tried
settings.register_profile("lightrl", deadline=None)
settings.load_profile("lightrl")
