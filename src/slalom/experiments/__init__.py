"""The tables and figures of the two papers, one file each."""
