"""What a scenario's checkpoint weighs, takes and costs."""
