"""The bytes of ended jobs: retention and erasures remove them, and a check proves that none are left."""
