"""Every property of the UsdPhysics schema as a case, and the table of docs/usd-conformance.md."""
