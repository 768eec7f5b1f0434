"""The experience bank: packs of lessons as files, merged in git, recalled by likeness."""
