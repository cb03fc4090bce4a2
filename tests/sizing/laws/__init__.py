"""Laws that every scenario keeps, held on random ones that use the whole of the question."""
