"""Forces on joints and frames: springs, dampers, control, actuators, tendons, muscles, adhesion and fluid forces."""
