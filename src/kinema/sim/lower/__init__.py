"""From algorithms to programs: straight lines, lines that copies share, loops over tables."""
