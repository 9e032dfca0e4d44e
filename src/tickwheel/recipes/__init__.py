"""What people build on a timer: idle clients, messages without duplicates, work in order within a key."""
