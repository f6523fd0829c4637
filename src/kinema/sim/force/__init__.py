"""What acts: joints by themselves, actuators and tendons, the user."""
