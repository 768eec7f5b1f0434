"""What apply does beyond the meeting: sessions, horizons, replays, the branch and its bundle."""
