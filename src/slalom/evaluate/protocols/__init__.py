"""The protocols. One file here is one protocol; its file name is its public name; nothing registers it."""
