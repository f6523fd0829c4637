"""Robots as descriptions, random and chosen ones, and their configurations."""
