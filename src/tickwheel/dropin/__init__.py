"""Drop-ins: change one import, and every timer is in the wheel."""
