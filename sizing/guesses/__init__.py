"""What nobody stated and how far it moves the answer: plausible ranges and alternatives, each answered."""
