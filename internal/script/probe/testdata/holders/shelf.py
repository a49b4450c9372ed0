"""A module of the script's that keeps what it is given."""
KEPT = []


def keep(x):
    KEPT.append(x)
