"""An algorithm is a bundle of parts; variants state their smallest difference from a parent."""
