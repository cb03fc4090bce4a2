"""Answers as documents to read, print and attach: one page that needs nothing beside it, as HTML and as PDF.

Needs the extra `report`.
"""
