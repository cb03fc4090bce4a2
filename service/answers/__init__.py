"""From a question to its answer: at once beside the event loop, or as a function for the processes that compute."""
