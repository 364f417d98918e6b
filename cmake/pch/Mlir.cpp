// The translation unit that the precompiled header belongs to.
