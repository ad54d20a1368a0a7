"""Puts the page of each kind into the contents of the site, so that a new kind needs no line in mkdocs.yml."""

from mkdocs.config.defaults import MkDocsConfig

from lightrl.kinds import KINDS


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Called by mkdocs once it has read its file."""
    config.nav = [*(config.nav or []), {"Kinds of parts": [{kind.title: f"kinds/{kind.slug}.md"} for kind in KINDS.values()]}]
    return config
