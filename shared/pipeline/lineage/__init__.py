"""Jobs whose payload does not come whole: they grow, are cut by several workers, wait for others, or are made of their lines."""
