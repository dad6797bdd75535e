"""The protocols: a function here under `@protocol(name, …)` is one, by that name; nothing else names it."""
