"""What runs on the device: functions of Warp, and the kernels made of them. Imported when the first image is made."""
