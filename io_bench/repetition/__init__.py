"""One configuration under the clock: write, forget, restore, compare, as often as it takes."""
