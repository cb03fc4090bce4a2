"""Who takes part: how ranks find each other, agree, wait, and end together."""
