"""What explanations say of each rule of scheduling: what its filters compare, and which changes follow."""
