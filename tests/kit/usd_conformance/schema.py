"""The classes and properties of UsdPhysics, as the installed OpenUSD knows them."""

from __future__ import annotations


def schema_classes() -> list[str]:
    """The names of the classes."""
    from pxr import Plug, Tf, Usd

    plugin = Plug.Registry().GetPluginWithName("usdPhysics")
    types = [Tf.Type.FindByName(name) for name in plugin.metadata["Types"]]
    return sorted(Usd.SchemaRegistry.GetSchemaTypeName(t) for t in types)


def schema_properties() -> set[tuple[str, str]]:
    """Every property with the class that declares it, `physics:low` and not `limit:__INSTANCE_NAME__:physics:low`."""
    from pxr import Usd

    result: set[tuple[str, str]] = set()
    for name in schema_classes():
        kind = Usd.SchemaRegistry.GetTypeFromSchemaTypeName(name)
        base = Usd.SchemaRegistry.GetSchemaTypeName(kind.baseTypes[0])
        own = _properties(name) - _properties(base)
        result |= {(name, p[p.index("physics:") :]) for p in own if "physics:" in p}
    return result


def _properties(name: str) -> set[str]:
    from pxr import Usd

    registry = Usd.SchemaRegistry()
    definition = registry.FindConcretePrimDefinition(name) or registry.FindAppliedAPIPrimDefinition(name)
    return set(definition.GetPropertyNames()) if definition else set()
