"""Uploads of exported folders to the Hugging Face hub."""

from __future__ import annotations

from lightrl_hub.upload import Target, files_of, upload

__all__ = ["Target", "files_of", "upload"]
