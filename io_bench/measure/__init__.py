"""One configuration: as data before the clock, then under it: write, forget, restore, compare, as often as it takes."""
