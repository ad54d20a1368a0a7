"""Pure tensor functions: no state, no distribution, no modules. Everything above is built from these."""
