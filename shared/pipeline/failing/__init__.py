"""Work of which not all passes at once: what fails waits or is set aside, suspects run alone, and calls take turns."""
