"""Declarative models for everybody: read them, change them, write them to a file, solve them anywhere.

Begin with `opening.py` (`statements`, `model`), then `model.py`: what a `Model` can do, whatever its language.
"""
