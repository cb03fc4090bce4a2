"""What each technique of training would change."""
