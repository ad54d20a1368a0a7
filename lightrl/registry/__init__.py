"""The classes and configs that installed packages register: finding, loading and naming them."""
