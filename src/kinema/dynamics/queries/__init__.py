"""Fields of the array contract (links, dofs, constraints, contacts, system), computed on demand from the state."""
