"""Muon for the hidden matrices of a policy, and AdamW for everything else."""

from __future__ import annotations

from lightrl_muon.muon_adamw import MuonAdamW

__all__ = ["MuonAdamW"]
