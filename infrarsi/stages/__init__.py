"""Stories: each stage is one command, told as a page, and introduces the rooms to each other."""
