"""Answers in the form that was asked for: JSON, a page, PDF, or CSV for spreadsheets."""
