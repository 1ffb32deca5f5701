"""What can be seen of a network: a report of its nodes, its verification, its profile."""
