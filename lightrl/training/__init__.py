"""LightningModules: what all share here, online and offline learning in their folders."""
