"""What is wrong in a cluster: a function per finding, which notes of answers and the list of all call."""
