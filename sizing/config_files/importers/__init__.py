"""Importers, one module for each kind of config file."""
