"""Explanations of many documents, on one machine or many."""
