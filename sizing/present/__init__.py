"""How answers are shown: rows, tables and charts, and the documents that pages, PDF and terminal are made from."""
