"""The export: functions of API objects, which run without Fusion too. They need nothing but Python itself."""
