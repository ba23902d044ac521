"""Fast algorithms for key splitting [Nasir2015]: the schemes, and the partitioner that applies one to a stream.

Begin with schemes.py; partitioner.py is what an application feeds, chooser.py advises how many choices a stream needs.
"""
