"""Which explanation is faithful: one file for each protocol.

A protocol is a function of an `Ask` (the model and the tokens that were explained) and an `Explanation`. One
`Ask` for all explanations of a text asks the model nothing twice.
"""
