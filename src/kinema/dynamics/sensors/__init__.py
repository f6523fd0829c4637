"""Sensor models (MuJoCo sensor types, rangefinders, contact sensors) traced into programs."""
