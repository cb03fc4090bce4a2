"""From targets to the rates and the interval that together meet them: the inverse of the evaluation."""
