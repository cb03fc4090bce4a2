"""A saved scenario's answer as a document to read, print and attach: one page for HTML and PDF, and CSV."""
