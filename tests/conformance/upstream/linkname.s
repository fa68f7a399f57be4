// Functions without a body, which queue.go links by name, need a file of assembly in their package.
